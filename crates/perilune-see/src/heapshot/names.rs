//! Objects for people: what they are, and paths to them.
//!
//! A path is written as Lua would (`_G.cache["a b"].items[17]`); what is no expression stands in angles:
//! `<metatable>`, `<upvalue cache>`.

use super::graph::{Graph, Step};
use super::read::Edge;
use perilune_trace::heapshot::format::{Label, NodeKind, RootKind};

/// Fields of a shape that are shown.
const MOST_FIELDS: usize = 6;

fn lossy(bytes: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '.' } else { c }).collect();
    text
}

fn is_name(text: &[u8]) -> bool {
    text.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn key(text: &[u8]) -> String {
    if is_name(text) { format!(".{}", lossy(text)) } else { format!("[\"{}\"]", lossy(text)) }
}

impl Graph<'_> {
    fn text(&self, n: u64) -> String {
        lossy(self.snapshot.text(n as u32))
    }

    /// A reference as a piece of a path.
    pub fn edge_text(&self, e: &Edge) -> String {
        let s = self.snapshot;
        let text = || self.text(e.argument);
        let plain = match e.label {
            Label::Field => return key(s.text(e.argument as u32)),
            Label::Index => return format!("[{}]", e.argument as i64),
            Label::StringKey => {
                let node = s.nodes[e.argument as usize];
                let text = s.text(node.text);
                // A long string is known by its beginning.
                if node.x as usize > text.len() {
                    return format!("[\"{}...\"]", lossy(text));
                }
                return key(text);
            }
            Label::FloatKey => return format!("[{:?}]", f64::from_bits(e.argument)),
            Label::BooleanKey => return format!("[{}]", e.argument != 0),
            Label::ObjectKey => return format!("[{}]", self.short_name(e.argument as u32)),
            Label::OtherKey => return "[light]".into(),
            Label::Key => "key".into(),
            Label::Metatable => "metatable".into(),
            Label::Upvalue => format!("upvalue {}", text()),
            Label::Variable => return String::new(),
            Label::Local => format!("local {}", text()),
            Label::Stack => text(),
            Label::Constant => "constant".into(),
            Label::Code => "code".into(),
            Label::Ephemeron => format!("value in weak {}", self.short_name(e.argument as u32)),
            Label::Resumer => "coroutine".into(),
            Label::UserValue => format!("user value {}", e.argument),
            Label::NativeStack => "native stack".into(),
            Label::Other => text(),
            Label::Island => "island".into(),
        };
        if e.weak { format!("<weak {plain}>") } else { format!("<{plain}>") }
    }

    /// A step of a path.
    pub fn step_text(&self, step: &Step) -> String {
        match step {
            Step::Edge(_, e) => self.edge_text(e),
            Step::Root(r) => {
                let text = self.text(r.text as u64);
                let name = match r.kind {
                    RootKind::Globals => "_G".into(),
                    RootKind::Registry => "registry".into(),
                    RootKind::Stack => text,
                    RootKind::Runtime => format!("({text})"),
                    RootKind::Finalizer => "(to be finalised)".into(),
                    RootKind::NativeStack => "(native stack)".into(),
                };
                match self.snapshot.domains.len() {
                    0 | 1 => name,
                    _ => format!("{}: {name}", self.snapshot.domains[r.domain as usize].name),
                }
            }
        }
    }

    /// The shortest path to a node.
    pub fn path(&self, n: u32) -> String {
        let mut path = String::new();
        let way = self.way(n);
        let long = way.len() > 24;
        for (at, step) in way.iter().enumerate() {
            if long && (12..way.len() - 8).contains(&at) {
                if at == 12 {
                    path.push_str(&format!(" ...({} steps)... ", way.len() - 20));
                }
                continue;
            }
            let piece = self.step_text(step);
            // A module's table is known by that name.
            if at == 1 && piece == "._LOADED" && path.ends_with("registry") {
                path.truncate(path.len() - "registry".len());
                path.push_str("package.loaded");
                continue;
            }
            if piece.starts_with('<') && !path.is_empty() {
                path.push(' ');
            }
            path.push_str(&piece);
        }
        if path.is_empty() { "(nothing)".into() } else { path }
    }

    /// A hash of the shortest path: the same in two runs of a program, if the path is.
    pub(super) fn step_hash(&self, before: u64, step: &Step) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut h = std::hash::DefaultHasher::new();
        before.hash(&mut h);
        match step {
            Step::Edge(_, e) if e.label == Label::Index => (1u8, e.argument).hash(&mut h),
            // Which line runs may differ.
            Step::Edge(_, e) if matches!(e.label, Label::Local | Label::Stack) => {
                let text = self.text(e.argument);
                text.rsplit_once(" (").map_or(&*text, |(name, _)| name).hash(&mut h);
            }
            step => self.step_text(step).hash(&mut h),
        }
        h.finish()
    }

    /// The name of the class of tables with this metatable: its `__name`, or what it is called where it is
    /// found.
    fn class_name(&self, metatable: u32) -> Option<String> {
        if let Some(known) = self.class_names.borrow().get(&metatable) {
            return known.clone();
        }
        let s = self.snapshot;
        let named = s.edges_of(metatable).iter().find_map(|e| {
            let name = match e.label {
                Label::Field => s.text(e.argument as u32),
                Label::StringKey => s.text(s.nodes[e.argument as usize].text),
                _ => return None,
            };
            let to = s.nodes[e.to as usize];
            (name == b"__name" && to.kind == NodeKind::String).then(|| lossy(s.text(to.text)))
        });
        let found = || {
            let mut at = metatable;
            for _ in 0..3 {
                let Some(Step::Edge(from, e)) = self.last_step(at) else { return None };
                match e.label {
                    Label::Field | Label::Upvalue => {
                        let name = self.text(e.argument);
                        return (!name.starts_with("__")).then_some(name);
                    }
                    Label::Local => {
                        let text = self.text(e.argument);
                        return Some(text.split(" of ").next().unwrap_or(&text).to_owned());
                    }
                    Label::Variable => at = from,
                    _ => return None,
                }
            }
            None
        };
        let name = named.or_else(found);
        self.class_names.borrow_mut().insert(metatable, name.clone());
        name
    }

    /// What objects like this one are called as a group.
    pub fn type_name(&self, n: u32) -> String {
        let s = self.snapshot;
        let node = &s.nodes[n as usize];
        let text = || lossy(s.text(node.text));
        match node.kind {
            NodeKind::String => "string".into(),
            NodeKind::Table => self.table_name(n),
            NodeKind::Function => format!("function <{}>", text()),
            NodeKind::Native => format!("native function {}", text()),
            NodeKind::Userdata if node.text == 0 => "userdata".into(),
            NodeKind::Userdata => format!("userdata {}", text()),
            NodeKind::Thread if node.y != 0 => "fiber".into(),
            NodeKind::Thread => "coroutine".into(),
            NodeKind::Code => "code of functions".into(),
            NodeKind::Upvalue => "variable of closures".into(),
            NodeKind::Shared => format!("shared {}", text().split(':').next().unwrap_or_default()),
            NodeKind::Island => "island".into(),
            NodeKind::Other => "other".into(),
        }
    }

    fn table_name(&self, n: u32) -> String {
        let s = self.snapshot;
        let node = &s.nodes[n as usize];
        let metatable = s.edges_of(n).iter().find(|e| e.label == Label::Metatable);
        if let Some(name) = metatable.and_then(|e| self.class_name(e.to)) {
            return format!("table {name}");
        }
        let fields = (node.x as usize).checked_sub(1).and_then(|n| s.shapes.get(n));
        let fields = fields.map_or(&[][..], |f| f);
        let mut parts: Vec<String> = fields.iter().take(MOST_FIELDS).map(|&f| self.text(f as u64)).collect();
        if fields.len() > MOST_FIELDS {
            parts.push("...".into());
        }
        if node.y > 0 {
            parts.push("[1..n]".into());
        }
        if node.z > 0 {
            parts.push("[keys]".into());
        }
        if parts.is_empty() { "table {}".into() } else { format!("table {{{}}}", parts.join(", ")) }
    }

    /// What this one object is.
    pub fn short_name(&self, n: u32) -> String {
        let s = self.snapshot;
        let node = &s.nodes[n as usize];
        let text = || lossy(s.text(node.text));
        match node.kind {
            NodeKind::String if node.x > s.text(node.text).len() as u64 => {
                format!("string \"{}...\" ({} bytes)", text(), node.x)
            }
            NodeKind::String => format!("string \"{}\"", text()),
            NodeKind::Table => {
                let counts = match (node.y, node.z) {
                    (0, 0) => String::new(),
                    (n, 0) => format!(" with {n} elements"),
                    (0, n) => format!(" with {n} keys"),
                    (n, m) => format!(" with {n} elements, {m} keys"),
                };
                format!("{}{counts}", self.table_name(n))
            }
            NodeKind::Thread => {
                // A fiber that waits, and what runs in it, are "normal" to Lua.
                let normal = if node.y != 0 { "waiting" } else { "normal" };
                let status = ["suspended", "running", normal, "dead"];
                let status = status.get(node.x as usize).unwrap_or(&"?");
                format!(
                    "{} ({status}{}{})",
                    self.type_name(n),
                    if node.text == 0 { "" } else { ", " },
                    text()
                )
            }
            NodeKind::Code => format!("code of {}", text()),
            NodeKind::Shared => format!("shared {}", text()),
            NodeKind::Island => format!("island {}", node.x),
            _ => self.type_name(n),
        }
    }
}
