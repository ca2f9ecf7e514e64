//! Shapes: which slot holds which string-keyed field.

/// What a domain keeps about shapes.
#[derive(Default)]
pub struct ShapeTable {}
