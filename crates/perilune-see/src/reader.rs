//! Reading a program's rings together with the names that its events refer to.

use crate::definitions::Definitions;
use perilune_trace::map::Mapping;
use perilune_trace::read::{Drained, RawEvent, RingReader};
use std::io;
use std::ops::Deref;
use std::path::Path;

/// Reads a file's rings and definitions. For everything else it is the [`RingReader`].
pub struct Reader {
    rings: RingReader,
    definitions: Definitions,
    parsed: usize,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened or is no event file.
    pub fn open(path: &Path) -> io::Result<Reader> {
        Ok(Reader::new(Mapping::open(path)?))
    }

    /// Reads a mapped file.
    pub fn new(map: Mapping) -> Reader {
        Reader { rings: RingReader::new(map), definitions: Definitions::default(), parsed: 0 }
    }

    /// Gives everything new to `f`, as [`RingReader::drain`] does. Afterwards all names are known that these
    /// events refer to: whoever wrote an event had written before what it refers to.
    pub fn drain(&mut self, f: &mut dyn FnMut(RawEvent)) -> Drained {
        let drained = self.rings.drain(f);
        self.parsed += self.definitions.parse(self.rings.raw_definitions(self.parsed));
        drained
    }

    /// Names and call paths, as of the last [`Reader::drain`].
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }
}

impl Deref for Reader {
    type Target = RingReader;
    fn deref(&self) -> &RingReader {
        &self.rings
    }
}
