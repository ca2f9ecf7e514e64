//! The interface that native functions are written against.
