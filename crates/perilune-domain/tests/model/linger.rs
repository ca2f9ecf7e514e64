//! In a model nobody is patient: it would only be another way to be late.

#[derive(Default)]
pub struct Linger(());

impl Linger {
    pub fn until(&self, news: impl Fn() -> bool) -> bool {
        news()
    }
}
