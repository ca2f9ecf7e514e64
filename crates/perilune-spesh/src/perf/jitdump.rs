//! The jitdump format, version 1: a header, then records, all in the byte order of the machine.
//!
//! `perf` learns of the file by a mapping of it that is executable, the only kind of mapping that it always
//! records. So the first page is mapped so for as long as the file is written, and never touched.
//!
//! Times are those of `CLOCK_MONOTONIC`, which `perf record -k mono` uses for samples.

use super::Source;
use crate::memory::Code;
use crate::sys::clock;
use crate::sys::memory::Pages;
use crate::{sys, target};
use std::fs::File;
use std::io::{self, Write};

/// "JiTD" in the byte order of who writes it.
pub const MAGIC: u32 = 0x4A69_5444;
const VERSION: u32 = 1;
pub const HEADER_LEN: u32 = 40;

/// What a record says.
pub const LOAD: u32 = 0;
pub const DEBUG_INFO: u32 = 2;
pub const CLOSE: u32 = 3;

/// Writes a jitdump file.
#[derive(Debug)]
pub struct Writer {
    file: File,
    /// The mapping by which `perf` finds the file.
    _marker: Pages,
    /// How many functions there are so far; the next one's number, which keeps functions of one name apart.
    next_index: u64,
}

impl Writer {
    /// Writes the header of a new file, and maps it so that `perf` notices.
    pub fn new(mut file: File) -> io::Result<Writer> {
        let mut header = Vec::with_capacity(HEADER_LEN as usize);
        for word in [MAGIC, VERSION, HEADER_LEN, target::ELF_MACHINE, 0, std::process::id()] {
            header.extend(word.to_ne_bytes());
        }
        header.extend(clock::monotonic().to_ne_bytes());
        // No flags: the time is that of a clock, not of the processor's counter.
        header.extend(0u64.to_ne_bytes());
        file.write_all(&header)?;
        let _marker = Pages::executable_of(&file)?;
        Ok(Writer { file, _marker, next_index: 0 })
    }

    /// A function was installed. Its lines come first, as readers expect.
    pub fn load(&mut self, code: &Code, name: &str, source: Source<'_>) -> io::Result<()> {
        let mut records = Vec::new();
        if !source.lines.is_empty() {
            records.extend(record(DEBUG_INFO, &debug_info(code, source)));
        }
        let mut body = Vec::new();
        body.extend(std::process::id().to_ne_bytes());
        body.extend(sys::thread().to_ne_bytes());
        let address = code.address() as u64;
        for word in [address, address, code.len() as u64, self.next_index] {
            body.extend(word.to_ne_bytes());
        }
        push_name(&mut body, name);
        body.extend(code.bytes());
        records.extend(record(LOAD, &body));
        self.next_index += 1;
        // In one call, so that a reader never finds half a function.
        self.file.write_all(&records)
    }

    /// Nothing more will come.
    pub fn close(&mut self) -> io::Result<()> {
        self.file.write_all(&record(CLOSE, &[]))
    }
}

fn debug_info(code: &Code, source: Source<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend((code.address() as u64).to_ne_bytes());
    body.extend((source.lines.len() as u64).to_ne_bytes());
    for &(offset, line) in source.lines {
        body.extend((code.address() as u64 + u64::from(offset)).to_ne_bytes());
        body.extend(line.to_ne_bytes());
        // The discriminator, which tells parts of one line apart.
        body.extend(0u32.to_ne_bytes());
        push_name(&mut body, source.file);
    }
    body
}

/// Names end with a zero, so they contain none.
fn push_name(to: &mut Vec<u8>, name: &str) {
    to.extend(name.bytes().map(|byte| if byte == 0 { b'?' } else { byte }));
    to.push(0);
}

fn record(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = 16 + body.len();
    let mut record = Vec::with_capacity(len);
    record.extend(kind.to_ne_bytes());
    record.extend((len as u32).to_ne_bytes());
    record.extend(clock::monotonic().to_ne_bytes());
    record.extend(body);
    record
}
