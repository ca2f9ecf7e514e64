//! The texts of the chunk while code is made of it, and where each is among the constants of the function
//! being generated.
//!
//! A function that is open remembers by name: a name's entry says which function has had it last, and as
//! which constant. Where it takes the place of an entry of a function around, that is put aside, and comes
//! back when the inner function ends. So whether a function has a name as a constant is one comparison,
//! however functions nest.

use super::Gen;
use crate::ast::StrId;
use crate::parser::workspace::empty;
use crate::proto::Constant;
use crate::text::{Shared, Text};

/// See the head of the file.
#[derive(Default)]
pub(super) struct Texts {
    /// Those of the chunk; empty while the parser has them.
    pub(super) all: Vec<Shared>,
    /// By [`StrId`].
    entries: Vec<Entry>,
    /// What comes back when functions end, those of inner functions last.
    aside: Vec<(StrId, Entry)>,
    /// Functions so far.
    functions: u32,
}

/// Who has had a name last, and as which constant.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The number of the function; 0: nobody.
    function: u32,
    index: u32,
}

/// A function's part in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Naming {
    function: u32,
    /// Where what it has put aside starts.
    aside: usize,
}

impl Texts {
    /// The names of the chunk are these for now.
    pub(super) fn lend(&mut self, all: &mut Vec<Shared>) {
        std::mem::swap(&mut self.all, all);
        self.entries.resize(self.all.len(), Entry::default());
    }

    /// The parser gets them back.
    pub(super) fn give_back(&mut self, all: &mut Vec<Shared>) {
        std::mem::swap(&mut self.all, all);
    }

    /// Nothing of a chunk is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.entries.is_empty() && self.aside.is_empty()
    }

    /// The chunk is done.
    pub(super) fn empty(&mut self) {
        debug_assert!(self.all.is_empty(), "the parser has them");
        empty(&mut self.entries);
        empty(&mut self.aside);
        self.functions = 0;
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        use crate::parser::workspace::bytes;
        bytes(&self.all) + bytes(&self.entries) + bytes(&self.aside)
    }

    /// A name for a prototype.
    #[inline]
    pub(super) fn text(&self, name: StrId) -> Text {
        self.all[name.index()].text()
    }

    /// A function begins.
    pub(super) fn begin(&mut self) -> Naming {
        self.functions += 1;
        Naming { function: self.functions, aside: self.aside.len() }
    }

    /// The innermost function ends.
    pub(super) fn end(&mut self, naming: Naming) {
        for (name, entry) in self.aside.drain(naming.aside..).rev() {
            self.entries[name.index()] = entry;
        }
    }
}

impl Gen<'_> {
    /// Index of a string constant.
    #[inline]
    pub(super) fn string_constant(&mut self, name: StrId) -> u32 {
        let entry = self.texts.entries[name.index()];
        if entry.function == self.fs.naming.function { entry.index } else { self.new_string_constant(name) }
    }

    #[inline(never)]
    fn new_string_constant(&mut self, name: StrId) -> u32 {
        let texts = &mut self.texts;
        let entry = &mut texts.entries[name.index()];
        // What a function that has ended has left there is nobody's.
        if self.outer.iter().any(|around| around.naming.function == entry.function) {
            texts.aside.push((name, *entry));
        }
        let index = self.fs.constants.len() as u32;
        *entry = Entry { function: self.fs.naming.function, index };
        let text = texts.text(name);
        self.fs.constants.push(Constant::String(text));
        index
    }
}

#[cfg(test)]
mod tests {
    use crate::proto::{Constant, Proto};

    fn names(proto: &Proto) -> Vec<String> {
        let text = |c: &Constant| match c {
            Constant::String(s) => String::from_utf8_lossy(s).into_owned(),
            other => format!("{other:?}"),
        };
        proto.constants.iter().map(text).collect()
    }

    /// Names that functions around and inside have too are constants once in each.
    #[test]
    fn names_are_constants_once_in_each_function() {
        let source = "x, y = 1.5, 2.5
          function f() y = x function g() x = z; return function() z, x = x, z end end x, z = y, z end
          function h() z = x end
          x = z; y = x";
        let main = crate::compile(source.as_bytes(), b"=test").expect("compiles");
        assert_eq!(names(&main), ["x", "y", "Float(1.5)", "Float(2.5)", "f", "h", "z"]);
        let f = &main.protos[0];
        assert_eq!(names(f), ["y", "x", "g", "z"]);
        let g = &f.protos[0];
        assert_eq!(names(g), ["x", "z"]);
        assert_eq!(names(&g.protos[0]), ["z", "x"]);
        assert_eq!(names(&main.protos[1]), ["z", "x"]);
    }
}
