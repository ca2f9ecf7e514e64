//! Messages in protobuf's wire format: the two formats of others that we write (Perfetto's, pprof's) are made
//! of them. Field numbers stand where the fields are written.

/// A protobuf message in the making.
#[derive(Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }
    pub(crate) fn uint(&mut self, field: u32, n: u64) -> &mut Message {
        self.varint((field as u64) << 3);
        self.varint(n);
        self
    }
    pub(crate) fn fixed64(&mut self, field: u32, n: u64) -> &mut Message {
        self.varint((field as u64) << 3 | 1);
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    pub(crate) fn double(&mut self, field: u32, x: f64) -> &mut Message {
        self.fixed64(field, x.to_bits())
    }
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        self.varint((field as u64) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
    pub(crate) fn text(&mut self, field: u32, text: &str) -> &mut Message {
        self.bytes(field, text.as_bytes())
    }
    pub(crate) fn message(&mut self, field: u32, inner: &Message) -> &mut Message {
        self.bytes(field, &inner.0)
    }
}
