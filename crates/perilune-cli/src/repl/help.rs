//! `?name`: what a function is, and what is written about it.
//!
//! What is known of `require "perilune"` and the modules beside it are their LuaCATS files, which are part of
//! the executable: the comment lines before each `function`. A name is looked up as people write it:
//! `pl.sleep`, `pl.domain.spawn`, `pool:async`; and `x:async` where `x` is a pool. Functions of Lua's
//! standard library are in `library.lua`, in the same form; they are known by what they are, whatever the
//! program calls them. Of other functions there is what the value itself tells.

use perilune_luacats::Function;

/// The files of `docs/luacats`, one behind the other (`build.rs`).
const LUACATS: &str = include_str!(concat!(env!("OUT_DIR"), "/luacats.lua"));

/// What there is to say of the standard library.
const LIBRARY: &str = include_str!("library.lua");

/// What the documents call the methods of Lua's files, and what these files call themselves.
const FILE: (&str, &str) = ("file", "FILE*");

/// The functions of the standard library.
pub fn library() -> Vec<Function> {
    perilune_luacats::parse(LIBRARY).map(|all| all.functions().cloned().collect()).unwrap_or_default()
}

/// The method of Lua's files that somebody means by `name`, if what stands before the last colon calls itself
/// so.
pub fn method_of_file(name: &str, base: Option<&str>) -> Option<Function> {
    let (_, last) = name.rsplit_once(['.', ':'])?;
    let wanted = format!("{}:{last}", FILE.0);
    (base == Some(FILE.1)).then(|| library().into_iter().find(|e| e.name == wanted)).flatten()
}

/// Where a function of the standard library is in the manual.
pub fn section(of: &Function) -> String {
    let number = match of.name.split_once(['.', ':']).map(|(library, _)| library) {
        None => "6.1",
        Some("coroutine") => "6.2",
        Some("package") => "6.3",
        Some("string") => "6.4",
        Some("utf8") => "6.5",
        Some("table") => "6.6",
        Some("math") => "6.7",
        Some("os") => "6.9",
        Some("debug") => "6.10",
        Some(_) => "6.8",
    };
    let entry = if of.name == "require" { "6.3" } else { number };
    format!("  (section {entry} of the Lua 5.4 manual)")
}

/// What is known of a function, as lines for people.
pub fn lines(of: &Function) -> Vec<String> {
    let mut lines = vec![format!("{}({})", of.name, of.parameters)];
    for line in &of.comment {
        let Some(tag) = line.strip_prefix('@') else {
            lines.push(format!("  {line}"));
            continue;
        };
        let (tag, rest) = tag.split_once(' ').unwrap_or((tag, ""));
        match tag {
            "param" => lines.push(format!("    {rest}")),
            "return" => lines.push(format!("    -> {}", rest.replace(" # ", "  "))),
            "overload" => lines.push(format!("    or: {rest}")),
            _ => {}
        }
    }
    lines
}

/// All functions of the files. A test reads the same text, so that it is well-formed here.
fn entries() -> Vec<Function> {
    perilune_luacats::parse(LUACATS).map(|all| all.functions().cloned().collect()).unwrap_or_default()
}

/// What somebody means by `name`, whose base (what stands before the last dot or colon) is called `base` by
/// the value that it is, if that is known.
pub fn find(name: &str, base: Option<&str>) -> Vec<Function> {
    let name = name.replace("perilune.", "pl.");
    let last = name.rsplit(['.', ':']).next().unwrap_or("");
    let is_bare = last == name;
    let mut all = entries();
    all.retain(|e| e.last() == last);
    let exact = |e: &Function| {
        e.name == name
            || base
                .is_some_and(|base| e.name == format!("{base}:{last}") || e.name == format!("{base}.{last}"))
    };
    if !is_bare {
        all.retain(exact);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there_and_well_formed() {
        assert!(perilune_luacats::parse(LUACATS).is_ok());
        for name in ["pl.sleep", "json.decode", "net.connect"] {
            assert_eq!(find(name, None).len(), 1, "{name}");
        }
    }

    #[test]
    fn every_function_of_the_standard_library_is_described_and_no_other() {
        let mut vm = perilune_vm::Vm::new();
        perilune_stdlib::open_libs(&mut vm).unwrap_or_else(|_| panic!("the libraries open"));
        let check = b"local described, count = {}, 0
            for name in (...):gmatch '[^ ]+' do described[name] = true end
            local function have(name) assert(described[name], name) described[name] = nil count = count + 1 end
            for name, value in pairs(_G) do
              if type(value) == 'function' then have(name) end
              if type(value) == 'table' and name ~= '_G' then
                for key, f in pairs(value) do if type(f) == 'function' then have(name .. '.' .. key) end end
              end
            end
            for name in pairs(getmetatable(io.stdout).__index) do have('file:' .. name) end
            assert(not next(described), next(described))
            return count";
        let f = perilune_stdlib::chunk::load(&mut vm, check, b"=check", b"t", None);
        let Ok(Ok(f)) = f else { panic!("it compiles") };
        let names: Vec<String> = library().into_iter().map(|e| e.name).collect();
        let names = vm.value_str(names.join(" ").as_bytes()).unwrap_or_else(|_| panic!("a string"));
        let count =
            vm.call(f.into(), &[names]).map_err(|e| vm.host_error(e).as_string().map(|s| s.to_text()));
        assert_eq!(count.expect("all are described").as_int(), Some(library().len() as i64));
        assert!(library().iter().all(|e| e.text().next().is_some()));
    }

    #[test]
    fn functions_of_the_standard_library_are_in_their_sections() {
        let of = |name: &str| library().into_iter().find(|e| e.name == name).map(|e| section(&e));
        for (name, number) in
            [("print", "6.1"), ("require", "6.3"), ("string.format", "6.4"), ("file:read", "6.8")]
        {
            assert_eq!(of(name), Some(format!("  (section {number} of the Lua 5.4 manual)")));
        }
        let read = method_of_file("f:read", Some("FILE*")).map(|e| e.name);
        assert_eq!(read.as_deref(), Some("file:read"));
        assert!(method_of_file("f:read", None).is_none() && method_of_file("read", Some("FILE*")).is_none());
    }

    #[test]
    fn functions_of_the_file() {
        let all = entries();
        assert!(all.len() > 60, "{}", all.len());
        let names = |name, base| find(name, base).into_iter().map(|e| e.name).collect::<Vec<_>>();
        assert_eq!(names("pl.sleep", None), ["pl.sleep"]);
        assert_eq!(names("pl.domain.spawn", None), ["pl.domain.spawn"]);
        assert_eq!(names("p:async", Some("pool")), ["pool:async"]);
        assert_eq!(names("async", None), ["pool:async", "lane:async"]);
        assert!(names("string.format", None).is_empty());
        let sleep = &find("pl.sleep", None)[0];
        assert_eq!(
            lines(sleep),
            ["pl.sleep(seconds)", "  Waits; other fibers of the domain run meanwhile.", "    seconds number"]
        );
    }
}
