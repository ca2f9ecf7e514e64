//! Native functions: Rust functions that Lua can call.
//!
//! A native function reads its arguments with `vm.arg(i)` and friends (`api.rs`), pushes its results and
//! returns how many it pushed: `Ok(n)` means "the topmost n values of the stack". An error is `Err(Thrown)`;
//! the error value is already in the `Vm` by then, put there by whoever made the `Thrown`.
//!
//! What a native function may hold across a call that runs Lua: numbers, `Gc` references (the native stack is
//! scanned conservatively), bytes it has copied. Not: slices into strings that nothing references, `Gc`s
//! inside `Vec` or `Box`.
//!
//! # Quick forms
//! Most calls of some natives need far less than a frame: a letter of a string, an element more. Such a
//! native may have a *quick form* ([`Native::quick`]), which machine code calls with the arguments where they
//! are. It does the whole or nothing; what would raise an error, call Lua or collect is left to the native.
//! So does the interpreter with metamethods of arithmetic: those of strings. One that may give several values
//! (`string.find`) has a form that gives them as [`Results`] ([`Native::several`]).
//!
//! # Kinds
//! Most natives are [`Kind::Leaf`]: they never call Lua. A [`Kind::Reentrant`] one may (a comparator, a
//! callback, a metamethod); inside a coroutine it is run on a native stack of the coroutine's own, so that
//! Lua code below it can yield (`native_stack.rs`). Taking a native stack costs more than most natives do,
//! and most calls of those that may call Lua do not: `table.insert` hardly ever meets a metamethod. Such a
//! native is a
//! [`Kind::Hybrid`]: it runs as a leaf, and when it is about to call Lua after all, it is stopped and run again on a native stack. So what
//! it does before its first call into Lua must bear being done twice. The other kinds are not called at all:
//! the interpreter does their work on the Lua stack itself, which is what makes `pcall` and
//! `coroutine.resume` cheap and keeps native frames out of coroutines.

use crate::Vm;
use crate::object::NativeClosure;
use crate::value::{Tag, Value};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// Why an operation has no result. It is not only errors that leave a native function through `Err`: so do
/// waits and the end of a coroutine that nobody needs any more. Only [`Thrown::Error`] has a value, and only
/// its [`Raised`] gets it ([`Vm::take_error`]): whoever wants to catch an error matches, and passes the other
/// variants on. A native that drops one all the same gains nothing: the `Vm` remembers it
/// (`ErrorState::signal`) and says it again at the native's end, at its next call into Lua, and in place of
/// every error it raises.
///
/// The variants' numbers are what natives return to the interpreter, see [`NativeFn`].
#[derive(Debug)]
#[must_use = "whoever does not pass it on has to match on it"]
#[repr(i8)]
pub enum Thrown {
    /// A Lua error; its value is in the `Vm`.
    Error(Raised) = -1,
    /// The native waits; it is called again with the same arguments when what it waits for may be there
    /// (`fiber.rs`).
    Park(Signalled) = -2,
    /// A hybrid native that runs as a leaf was about to call Lua; it is run again where it may.
    RunAgain(Signalled) = -3,
    /// The running fiber is cancelled: nothing catches that, variables are closed on its way.
    Cancel(Signalled) = -4,
    /// The native frames of a coroutine that nobody needs any more are made to return: nothing catches that,
    /// and no Lua code runs on its way.
    Discard(Signalled) = -5,
}

/// The sign that the value of a Lua error is in the `Vm`. Only [`Vm::throw`] and its relatives make one.
#[derive(Debug)]
pub struct Raised(pub(crate) ());

/// The sign that the `Vm` knows of what is on its way. Only the `Vm` makes one.
#[derive(Debug)]
pub struct Signalled(());

/// What is on its way besides errors; see [`Thrown`], whose variants of the same names each are the answer to
/// one.
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

/// A native function as the interpreter and machine code call it. The result is the number of values pushed,
/// or a negative number: that of the [`Thrown`] variant. No panic crosses it: builds with assertions make an
/// error of it, others end the process with a message.
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
    /// What machine code calls in its place where all is plain.
    pub quick: Option<Quick>,
    /// The same of one that may give several values.
    pub several: Option<Several>,
    entry: NativeFn,
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.name, self.kind)
    }
}

/// What a native does, for arguments that are numbers, or what else is said: machine code that knows this
/// does it without a call.
#[derive(Clone, Copy, Debug)]
pub enum Intrinsic {
    /// `math.abs`
    Abs,
    /// `assert`, of what is true
    Assert,
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
    /// `select`, of the extra arguments of the function that calls it
    Select,
    /// `setmetatable`, of a table that has none, and a metatable without `__gc` and `__newindex`
    SetMetatable,
    /// `type`, whose upvalues are the names of all [types](crate::Type), in their order
    Type,
    /// `string.byte`, of a string and perhaps an integer
    Byte,
    /// `string.len`, of a string
    Len,
    /// `string.sub`, of a string and an integer, twice: one byte of it
    Sub,
    /// `ipairs`, whose iterator is this
    Ipairs(&'static Native),
    /// `pairs`, of a table without metatable, whose iterator is this
    Pairs(&'static Native),
}

/// From a function to its arguments, in values: a frame's record is between.
pub(crate) const GAP: usize = 3;

/// What machine code may call in place of a native, without a frame ([`Native::quick`]).
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    /// See [`QuickFn`].
    pub entry: QuickFn,
    /// What may be another thing after it.
    pub effect: Effect,
    /// Whether it always gives one value. Else it may give none, which then is nil.
    pub gives_one: bool,
}

/// What machine code may call in place of a native that may give several values ([`Native::several`]).
#[derive(Clone, Copy, Debug)]
pub struct Several {
    /// See [`SeveralFn`].
    pub entry: SeveralFn,
    /// What may be another thing after it.
    pub effect: Effect,
}

impl Several {
    /// The answer of a form that has done nothing.
    pub const NOT_DONE: u64 = 0;
}

/// What a quick form may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that shows.
    Nothing,
    /// It makes objects.
    Allocates,
    /// It stores into tables, and may make them grow.
    Stores,
}

/// The call of a quick form.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The native function.
    pub function: Value,
    /// Its arguments, in their registers.
    pub arguments: &'a [Value],
}

impl Call<'_> {
    /// Upvalue `n` (from 1) of the native function, which has so many.
    #[inline]
    pub fn upvalue(&self, n: usize) -> Value {
        debug_assert_eq!(self.function.tag(), Tag::NATIVE_CLOSURE);
        // SAFETY: a native that has upvalues is registered with them.
        let closure = unsafe { &*(self.function.payload() as *const NativeClosure) };
        closure.upvalue(n as u32 - 1).unwrap_or(Value::NIL)
    }
}

/// The values that a quick form gives, a few.
pub struct Results {
    values: [MaybeUninit<Value>; Results::MOST],
    count: usize,
}

impl Results {
    /// So many at most.
    pub const MOST: usize = 8;

    /// One more; whether there was room for it.
    #[inline]
    #[must_use = "what does not fit is left to the native"]
    pub fn push(&mut self, v: impl Into<Value>) -> bool {
        let Some(slot) = self.values.get_mut(self.count) else { return false };
        slot.write(v.into());
        self.count += 1;
        true
    }

    /// All of them.
    fn all(&self) -> &[Value] {
        // SAFETY: so many have been written.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.count) }
    }
}

/// A value, or nothing: its tag is [`Answer::NONE`] then.
#[repr(C)]
pub struct Answer {
    pub(crate) payload: u64,
    pub(crate) tag: u64,
}

impl Answer {
    /// The tag of an answer that is none. No value has it.
    pub const NONE: u64 = 255;
    pub(crate) const UNKNOWN: Answer = Answer { payload: 0, tag: Answer::NONE };

    #[inline(always)]
    pub(crate) fn of(v: Value) -> Answer {
        Answer { payload: v.payload(), tag: v.tag().0 as u64 }
    }

    #[inline(always)]
    fn value(self) -> Option<Value> {
        (self.tag != Answer::NONE).then(|| Value::raw(Tag(self.tag as u8), self.payload))
    }
}

/// A quick form as machine code calls it, with the address of the first argument, above the function by
/// [`crate::machine::layout::GAP`] values, and how many there are.
///
/// # Safety
/// The `Vm` is live, the calling thread owns it; function and arguments are live values, in registers of the
/// running frame or a copy of them.
pub type QuickFn = unsafe extern "C-unwind" fn(*mut Vm, *const Value, u64) -> Answer;

/// A quick form of several values as machine code calls it: as [`QuickFn`], and so many are wanted, which go
/// to the registers from the function's on; -1: all, and the top is behind them. The answer is
/// [`Several::NOT_DONE`] if nothing has been done.
///
/// # Safety
/// As [`QuickFn`], in registers of the running frame, which has room for the values that are wanted.
pub type SeveralFn = unsafe extern "C-unwind" fn(*mut Vm, *mut Value, u64, i64) -> u64;

impl Vm {
    /// What `f(x, y)` gives, if `f` is a native whose quick form does that, and nobody watches calls.
    #[inline]
    pub(crate) fn quick_metamethod(&mut self, f: Value, x: Value, y: Value) -> Option<Value> {
        let quick = f.as_native()?.quick.filter(|q| q.effect == Effect::Nothing)?;
        if self.hooks_active() || self.lua.machine.watched {
            return None;
        }
        let mut registers = [Value::NIL; GAP + 2];
        (registers[0], registers[GAP], registers[GAP + 1]) = (f, x, y);
        // SAFETY: a borrowed `Vm` is live and owned; the operands of the running instruction are live, and a
        // form without effect frees nothing.
        let answer = unsafe { (quick.entry)(self, registers[GAP..].as_ptr(), 2) };
        answer.value()
    }
}

/// What quick forms are written as: they neither raise, nor call Lua, nor collect, nor look at frames.
/// `None`, or an error, which only memory may be the reason of: nothing has been done, and the native itself
/// is called.
pub trait QuickBody: Fn(&mut Vm, Call<'_>) -> LuaResult<Option<Value>> + Copy + 'static {}
impl<F: Fn(&mut Vm, Call<'_>) -> LuaResult<Option<Value>> + Copy + 'static> QuickBody for F {}

/// What quick forms of several values are written as, under the same conditions. `false`, or an error: nothing
/// has been done.
pub trait SeveralBody: Fn(&mut Vm, Call<'_>, &mut Results) -> LuaResult<bool> + Copy + 'static {}
impl<F: Fn(&mut Vm, Call<'_>, &mut Results) -> LuaResult<bool> + Copy + 'static> SeveralBody for F {}

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
    /// A native of a kind that the interpreter treats itself; `body` is what happens when Rust code calls it
    /// directly.
    pub const fn special<F: NativeBody>(name: &'static str, kind: Kind, _body: F) -> Native {
        const { assert!(size_of::<F>() == 0, "a native is a function, not a pointer to one") };
        Native { name, kind, intrinsic: None, quick: None, several: None, entry: enter::<F> }
    }

    /// The same native, of which machine code knows what it does.
    ///
    /// It has to be that, for the arguments that are said there.
    pub const fn known_as(self, intrinsic: Intrinsic) -> Native {
        Native { intrinsic: Some(intrinsic), ..self }
    }

    /// The same native with a quick form, which does the same or nothing at all.
    pub const fn quick<F: QuickBody>(self, effect: Effect, _body: F) -> Native {
        const { assert!(size_of::<F>() == 0, "a quick form is a function, not a pointer to one") };
        Native { quick: Some(Quick { entry: enter_quick::<F>, effect, gives_one: true }), ..self }
    }

    /// As [`Native::quick`], for one that may give no value: its form gives nil then.
    pub const fn quick_or_none<F: QuickBody>(self, effect: Effect, _body: F) -> Native {
        const { assert!(size_of::<F>() == 0, "a quick form is a function, not a pointer to one") };
        Native { quick: Some(Quick { entry: enter_quick::<F>, effect, gives_one: false }), ..self }
    }

    /// The same native with a quick form of several values, which gives what the native gives, or does nothing
    /// at all.
    pub const fn several<F: SeveralBody>(self, effect: Effect, _body: F) -> Native {
        const { assert!(size_of::<F>() == 0, "a quick form is a function, not a pointer to one") };
        Native { several: Some(Several { entry: enter_several::<F>, effect }), ..self }
    }

    /// Whether it never, or hardly ever, runs Lua code.
    pub fn calls_no_lua(&self) -> bool {
        matches!(self.kind, Kind::Leaf | Kind::Hybrid | Kind::Next)
    }

    /// What machine code calls.
    pub fn entry(&self) -> NativeFn {
        self.entry
    }

    /// Runs the native in the running frame.
    #[inline(always)]
    pub fn run(&self, vm: &mut Vm) -> LuaResult<u32> {
        // SAFETY: a borrowed `Vm` is live and owned; natives find their arguments by the running frame,
        // whatever it is.
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

/// The quick form that is written as `F`.
unsafe extern "C-unwind" fn enter_quick<F: QuickBody>(
    vm: *mut Vm,
    arguments: *const Value,
    count: u64,
) -> Answer {
    let barrier = NoUnwinding;
    // SAFETY: a value without bytes; the caller's promise. Nothing moves the stack meanwhile.
    let (body, vm, call) = unsafe {
        let function = *arguments.sub(GAP);
        let arguments = std::slice::from_raw_parts(arguments, count as usize);
        (std::ptr::NonNull::<F>::dangling().read(), &mut *vm, Call { function, arguments })
    };
    let quick = call.function.payload() as usize;
    vm.lua.machine.quick.store(quick, Ordering::Relaxed);
    let answer = match body(vm, call) {
        Ok(Some(value)) => Answer::of(value),
        Ok(None) => Answer::UNKNOWN,
        Err(_) => {
            vm.forget_refusal();
            Answer::UNKNOWN
        }
    };
    vm.lua.machine.quick.store(0, Ordering::Relaxed);
    std::mem::forget(barrier);
    answer
}

/// The quick form of several values that is written as `F`.
unsafe extern "C-unwind" fn enter_several<F: SeveralBody>(
    vm: *mut Vm,
    arguments: *mut Value,
    count: u64,
    wanted: i64,
) -> u64 {
    let barrier = NoUnwinding;
    // SAFETY: as `enter_quick`; the values are copied when nobody looks at the arguments any more. All of them
    // fit behind a frame's registers (`machine/natives.rs` asserts it), whatever is wanted.
    unsafe {
        let function = arguments.sub(GAP);
        let (body, vm) = (std::ptr::NonNull::<F>::dangling().read(), &mut *vm);
        let call =
            Call { function: *function, arguments: std::slice::from_raw_parts(arguments, count as usize) };
        let mut results = Results { values: [const { MaybeUninit::uninit() }; Results::MOST], count: 0 };
        let quick = call.function.payload() as usize;
        vm.lua.machine.quick.store(quick, Ordering::Relaxed);
        let done = match body(vm, call, &mut results) {
            Ok(done) => done,
            Err(_) => {
                vm.forget_refusal();
                false
            }
        };
        vm.lua.machine.quick.store(0, Ordering::Relaxed);
        std::mem::forget(barrier);
        if !done {
            return Several::NOT_DONE;
        }
        let (given, mut to) = (results.all(), function);
        let taken = if wanted < 0 { given.len() } else { given.len().min(wanted as usize) };
        for v in &given[..taken] {
            Value::copy(to, v);
            to = to.add(1);
        }
        if wanted < 0 {
            vm.lua.top = to;
        }
        for _ in taken as i64..wanted {
            Value::store_nil(to);
            to = to.add(1);
        }
        1
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
    // SAFETY: the pointer comes from the reference, which is not used meanwhile. After a panic the state may
    // be half changed; the program is told so and is a test.
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
