//! In a model nobody is patient: it would only be another way to be late.

#[derive(Default)]
pub struct Spin(());

pub fn core() -> u32 {
    0
}

impl Spin {
    pub fn that_moves() -> Spin {
        Spin::default()
    }
    pub fn brought(&self) {}
    pub fn brought_by(&self, _: u32) {}
    pub fn until(&self, news: impl Fn() -> bool) -> bool {
        news()
    }
}
