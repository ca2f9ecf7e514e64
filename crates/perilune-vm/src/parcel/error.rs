//! Errors that cross: a value, and the traceback of the side where it was raised.
//!
//! An error always arrives. Its value crosses as a message would; one that cannot becomes its text, as
//! `tostring` gives it. On the other side a text gets the traceback appended, so that whoever prints it shows
//! both sides; any other value stays what it is.

use super::{PackRules, Parcel};
use crate::Vm;
use crate::cycle_collector::{Held, Holder};
use crate::native::{LuaResult, Thrown};
use crate::value::{Type, Value};
use std::sync::Arc;

/// An error on its way.
#[derive(Clone)]
pub struct ErrorParcel {
    value: Parcel,
    traceback: Arc<[u8]>,
}

impl Holder for ErrorParcel {
    fn held(&self, to: &mut Held<'_>) {
        self.value.held(to);
    }
}

impl ErrorParcel {
    /// As [`Parcel::holds_counts`].
    pub fn holds_counts(&self) -> bool {
        self.value.holds_counts()
    }

    /// The traceback of where it was raised.
    pub fn traceback(&self) -> &[u8] {
        &self.traceback
    }

    /// The same error without its value: what is left of it for a report.
    pub fn without_value(&self) -> ErrorParcel {
        ErrorParcel { value: Parcel::EMPTY, traceback: self.traceback.clone() }
    }

    /// An error that is a text from the start.
    pub fn from_text(text: &str) -> ErrorParcel {
        let mut words = Vec::new();
        words.push(super::graph::code::STRING as u64 | (text.len() as u64) << 8);
        super::graph::put_bytes(&mut words, text.as_bytes());
        let graph = super::Graph::new(words, 1, None);
        let value = Parcel(super::Repr::Graph { graph: Arc::new(graph), globals: super::Globals::Message });
        ErrorParcel { value, traceback: Arc::from(&b""[..]) }
    }
}

impl Vm {
    /// Packs the value of an error with the traceback of where it was raised, as [`Vm::traceback`] gives it.
    /// Always succeeds. A value that may not cross is asked for its text, which may run its `__tostring`.
    pub fn pack_error(&mut self, value: Value, traceback: &[u8]) -> ErrorParcel {
        let value = match self.pack(&[value], PackRules::ERROR) {
            Ok(parcel) => parcel,
            Err(_) => {
                let text = self.error_text(value);
                ErrorParcel::from_text(&text).value
            }
        };
        ErrorParcel { value, traceback: traceback.into() }
    }

    /// The text of a value that may not cross as it is.
    fn error_text(&mut self, value: Value) -> String {
        let top = self.nargs();
        let plain = format!("(error object is a {} value)", value.type_name());
        let has_text = self.metafield(value, "__tostring").is_ok_and(|f| !f.is_nil());
        if value.type_of() == Type::Table && !has_text {
            return plain;
        }
        let text = match self.host_call(Value::native(&TO_TEXT), &[value]) {
            Ok(n) if n > 0 => self.stack_get(self.nargs() - n + 1).as_string().map(|s| s.to_text()),
            _ => None,
        };
        self.truncate(top);
        text.unwrap_or(plain)
    }

    /// Pushes the value of an error that comes from `whence` ("task 'x'", "domain 3"). A text has the other
    /// side's traceback appended.
    ///
    /// # Errors
    /// As [`Vm::unpack`].
    pub fn unpack_error(&mut self, error: &ErrorParcel, whence: &str) -> LuaResult<Value> {
        let value = self.unpack_one(&error.value)?;
        match value.as_string() {
            Some(text) if !error.traceback.is_empty() => {
                let text = [text.bytes(), b"\nin ", whence.as_bytes(), b": ", &error.traceback].concat();
                self.value_str(&text)
            }
            _ => Ok(value),
        }
    }

    /// Raises an error that comes from `whence`.
    pub fn raise_from(&mut self, error: &ErrorParcel, whence: &str) -> Thrown {
        match self.unpack_error(error, whence) {
            Ok(value) => self.throw(value),
            Err(thrown) => thrown,
        }
    }
}

static TO_TEXT: crate::Native = crate::Native::reentrant("tostring", |vm| {
    let v = vm.arg(1);
    let s = vm.tostring(v)?;
    vm.ret(s)
});
