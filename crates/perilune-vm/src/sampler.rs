//! Samplers: where processor time goes and who allocates, as events (`docs/tracing-design.md`).

#[allow(dead_code)]
mod paths;

pub(crate) use paths::Paths;

/// What a domain keeps for its samplers.
#[derive(Default)]
pub(crate) struct Sampler {
    paths: Paths,
}
