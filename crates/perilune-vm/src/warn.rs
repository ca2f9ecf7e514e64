//! `warn`: the warning state.

/// Whether warnings are on, and the message being put together.
#[derive(Default)]
pub struct WarnState {
    pub(crate) on: bool,
    pub(crate) continues: bool,
}
