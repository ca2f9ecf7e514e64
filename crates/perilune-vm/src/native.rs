//! Native functions: Rust functions that Lua can call.
//!
//! A native function reads its arguments with `vm.arg(i)` and friends (`api.rs`), pushes its results and returns
//! how many it pushed: `Ok(n)` means "the topmost n values of the stack". An error is `Err(Thrown)`; the error value is already in the
//! `Vm` by then, put there by whoever made the `Thrown`.
//!
//! What a native function may hold across a call that runs Lua: numbers, `Gc` references (the native stack is scanned conservatively), bytes
//! it has copied. Not: slices into strings that nothing references, `Gc`s inside `Vec` or `Box`.
//!
//! # Kinds
//! Most natives are [`Kind::Leaf`]: they never call Lua. A [`Kind::Reentrant`] one may (a comparator, a callback, a metamethod); inside a coroutine
//! it is run on a native stack of the coroutine's own, so that Lua code below it can yield (`segment.rs`). Taking a native stack costs more than
//! most natives do, and most calls of those that may call Lua do not: `table.insert` hardly ever meets a metamethod. Such a native is a
//! [`Kind::Hybrid`]: it runs as a leaf, and when it is about to call Lua after all, it is stopped and run again on a native stack. So what
//! it does before its first call into Lua must bear being done twice. The other kinds are not called
//! at all: the interpreter does their work on the Lua stack itself, which is what makes `pcall` and `coroutine.resume` cheap and keeps native frames
//! out of coroutines.

use crate::Vm;

/// Why an operation has no result. It is not only errors that leave a native function through `Err`: so do waits and the end of a coroutine
/// that nobody needs any more. Only [`Thrown::Error`] has a value, and only its [`Raised`] gets it ([`Vm::take_error`]): whoever wants to catch an error
/// matches, and passes the other variants on. A native that drops one all the same gains nothing: the `Vm` remembers it
/// (`ErrorState::signal`) and says it again at the native's end, at its next call into Lua, and in place of every error it raises.
///
/// The variants' numbers are what natives return to the interpreter, see [`NativeFn`].
#[derive(Debug)]
#[must_use = "whoever does not pass it on has to match on it"]
#[repr(i8)]
pub enum Thrown {
    /// A Lua error; its value is in the `Vm`.
    Error(Raised) = -1,
    /// The native waits; it is called again with the same arguments when what it waits for may be there (`fiber.rs`).
    Park(Signalled) = -2,
    /// A hybrid native that runs as a leaf was about to call Lua; it is run again where it may.
    RunAgain(Signalled) = -3,
    /// The running fiber is cancelled: nothing catches that, variables are closed on its way.
    Cancel(Signalled) = -4,
    /// The native frames of a coroutine that nobody needs any more are made to return: nothing catches that, and no Lua code runs on its way.
    Discard(Signalled) = -5,
}

/// The sign that the value of a Lua error is in the `Vm`. Only [`Vm::throw`] and its relatives make one.
#[derive(Debug)]
pub struct Raised(pub(crate) ());

/// The sign that the `Vm` knows of what is on its way. Only the `Vm` makes one.
#[derive(Debug)]
pub struct Signalled(());

/// What is on its way besides errors; see [`Thrown`], whose variants of the same names each are the answer to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Signal {
    #[default]
    None,
    Park,
    RunAgain,
    Cancel,
    Discard,
}

impl Signal {
    /// What to return while this is on its way; with no signal, an error whose value is in the `Vm`.
    #[inline]
    pub(crate) fn thrown(self) -> Thrown {
        match self {
            Signal::None => Thrown::Error(Raised(())),
            Signal::Park => Thrown::Park(Signalled(())),
            Signal::RunAgain => Thrown::RunAgain(Signalled(())),
            Signal::Cancel => Thrown::Cancel(Signalled(())),
            Signal::Discard => Thrown::Discard(Signalled(())),
        }
    }
}

impl Thrown {
    /// What of this the `Vm` has to remember.
    #[inline]
    pub(crate) fn signal(&self) -> Signal {
        match self {
            Thrown::Error(_) => Signal::None,
            Thrown::Park(_) => Signal::Park,
            Thrown::RunAgain(_) => Signal::RunAgain,
            Thrown::Cancel(_) => Signal::Cancel,
            Thrown::Discard(_) => Signal::Discard,
        }
    }
}

/// What Lua-facing operations return.
pub type LuaResult<T> = Result<T, Thrown>;

/// A native function as the interpreter and machine code call it. The result is the number of values pushed, or a negative number: that of the
/// [`Thrown`] variant. No panic crosses it: builds with assertions make an error of it, others end the process with a message.
///
/// # Safety
/// The `Vm` is live, the calling thread owns it, and its running frame is that of the native.
pub type NativeFn = unsafe extern "C-unwind" fn(*mut Vm) -> i64;

/// What the interpreter does when a native function is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Calls `func`, which never runs Lua code.
    Leaf,
    /// Calls `func`, which may run Lua code (and so may yield).
    Reentrant,
    /// As `Reentrant`, but seldom; see the module's essay.
    Hybrid,
    /// `pcall`
    Pcall,
    /// `xpcall`
    Xpcall,
    /// `coroutine.resume`
    Resume,
    /// `coroutine.yield`
    Yield,
    /// The function that `coroutine.wrap` returns (upvalue 1: the coroutine)
    Wrap,
    /// `next`: a leaf that generic `for` knows
    Next,
    /// The iterator that `ipairs` returns: a reentrant one that generic `for` knows
    IpairsStep,
    /// `at` of arrays in two dimensions: a leaf that CALL knows
    ElementAt,
    /// `put` of arrays in two dimensions: a leaf that CALL knows
    ElementPut,
}

/// A native function's static description. Its address is its identity.
pub struct Native {
    /// Name for tracebacks and messages, as `string.format` would be found in `package.loaded`: "format".
    pub name: &'static str,
    /// See [`Kind`].
    pub kind: Kind,
    /// What it does, if machine code may do it by itself.
    pub intrinsic: Option<Intrinsic>,
    entry: NativeFn,
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.name, self.kind)
    }
}

/// What a native does, for arguments that are numbers, or what else is said: machine code that knows this does it without a call.
#[derive(Clone, Copy, Debug)]
pub enum Intrinsic {
    /// `math.abs`
    Abs,
    /// `math.ceil`
    Ceil,
    /// `math.floor`
    Floor,
    /// `math.max`
    Max,
    /// `math.min`
    Min,
    /// `math.sqrt`
    Sqrt,
    /// This function of one float.
    Float(extern "C" fn(f64) -> f64),
    /// `string.byte`, of a string and perhaps an integer
    Byte,
    /// `string.len`, of a string
    Len,
}

/// What natives are written as. `Copy` and without state: the function's type alone says which one it is.
pub trait NativeBody: Fn(&mut Vm) -> LuaResult<u32> + Copy + 'static {}
impl<F: Fn(&mut Vm) -> LuaResult<u32> + Copy + 'static> NativeBody for F {}

impl Native {
    /// A native that never runs Lua code.
    pub const fn leaf<F: NativeBody>(name: &'static str, body: F) -> Native {
        Native::special(name, Kind::Leaf, body)
    }
    /// A native that may run Lua code: metamethods, callbacks, iterators.
    pub const fn reentrant<F: NativeBody>(name: &'static str, body: F) -> Native {
        Native::special(name, Kind::Reentrant, body)
    }
    /// A native that may run Lua code but seldom does, and that changes nothing before.
    pub const fn hybrid<F: NativeBody>(name: &'static str, body: F) -> Native {
        Native::special(name, Kind::Hybrid, body)
    }
    /// A native of a kind that the interpreter treats itself; `body` is what happens when Rust code calls it directly.
    pub const fn special<F: NativeBody>(name: &'static str, kind: Kind, _body: F) -> Native {
        const { assert!(size_of::<F>() == 0, "a native is a function, not a pointer to one") };
        Native { name, kind, intrinsic: None, entry: enter::<F> }
    }

    /// The same native, of which machine code knows what it does.
    ///
    /// It has to be that, for the arguments that are said there.
    pub const fn known_as(self, intrinsic: Intrinsic) -> Native {
        Native { intrinsic: Some(intrinsic), ..self }
    }

    /// What machine code calls.
    pub fn entry(&self) -> NativeFn {
        self.entry
    }

    /// Runs the native in the running frame.
    #[inline(always)]
    pub fn run(&self, vm: &mut Vm) -> LuaResult<u32> {
        // SAFETY: a borrowed `Vm` is live and owned; natives find their arguments by the running frame, whatever it is.
        let n = unsafe { (self.entry)(vm) };
        if n >= 0 { Ok(n as u32) } else { Err(thrown_of(n)) }
    }
}

/// The variant that a negative result of a native stands for.
#[inline]
fn thrown_of(code: i64) -> Thrown {
    match code {
        -1 => Signal::None.thrown(),
        -2 => Signal::Park.thrown(),
        -3 => Signal::RunAgain.thrown(),
        -4 => Signal::Cancel.thrown(),
        _ => Signal::Discard.thrown(),
    }
}

/// The entry of the native that is written as `F`.
unsafe extern "C-unwind" fn enter<F: NativeBody>(vm: *mut Vm) -> i64 {
    let barrier = NoUnwinding;
    // SAFETY: a value without bytes; the caller's promise.
    let (body, vm) = unsafe { (std::ptr::NonNull::<F>::dangling().read(), &mut *vm) };
    let result = run_body(body, vm);
    std::mem::forget(barrier);
    match result {
        Ok(n) => i64::from(n),
        Err(thrown) => match thrown {
            Thrown::Error(_) => -1,
            Thrown::Park(_) => -2,
            Thrown::RunAgain(_) => -3,
            Thrown::Cancel(_) => -4,
            Thrown::Discard(_) => -5,
        },
    }
}

#[cfg(not(debug_assertions))]
#[inline(always)]
fn run_body<F: NativeBody>(body: F, vm: &mut Vm) -> LuaResult<u32> {
    body(vm)
}

/// A failed assertion becomes an error, so that a test says which script it was.
#[cfg(debug_assertions)]
fn run_body<F: NativeBody>(body: F, vm: &mut Vm) -> LuaResult<u32> {
    let vm: *mut Vm = vm;
    // SAFETY: the pointer comes from the reference, which is not used meanwhile. After a panic the state may be half changed; the program is
    // told so and is a test.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(unsafe { &mut *vm }))) {
        Ok(result) => result,
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            // SAFETY: as above.
            Err(unsafe { (*vm).error_plain(format!("internal error: {text}")) })
        }
    }
}

/// Ends the process if a panic passes: frames of the interpreter and of machine code below cannot be unwound.
struct NoUnwinding;

impl Drop for NoUnwinding {
    #[cold]
    fn drop(&mut self) {
        eprintln!("perilune: internal error: a native function has panicked; the process cannot go on");
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_code() {
        for signal in [Signal::None, Signal::Park, Signal::RunAgain, Signal::Cancel, Signal::Discard] {
            let code = match signal.thrown() {
                Thrown::Error(_) => -1,
                Thrown::Park(_) => -2,
                Thrown::RunAgain(_) => -3,
                Thrown::Cancel(_) => -4,
                Thrown::Discard(_) => -5,
            };
            assert_eq!(thrown_of(code).signal(), signal);
        }
    }

    #[test]
    fn what_natives_return_fits_a_register() {
        assert_eq!(size_of::<Thrown>(), 1);
        assert_eq!(size_of::<LuaResult<u32>>(), 8);
    }
}
