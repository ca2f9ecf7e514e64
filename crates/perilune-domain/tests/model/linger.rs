//! In a model nobody is patient: it would only be another way to be late.

#[derive(Default)]
pub struct Linger(());

pub fn core() -> u32 {
    0
}

impl Linger {
    pub fn that_moves() -> Linger {
        Linger::default()
    }
    pub fn brought(&self) {}
    pub fn brought_by(&self, _: u32) {}
    pub fn until(&self, news: impl Fn() -> bool) -> bool {
        news()
    }
}
