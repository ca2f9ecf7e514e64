//! Unpacking: from a [`Graph`] to values of a domain.
//!
//! Three steps. First everything that may run Lua code: modules that this domain has not got yet are
//! required, and kinds of shared objects that it has not met get their metatables. What they give is on the
//! Lua stack from then on. Then the objects are made and filled, without a chance of a collection in between,
//! so they may be kept in a plain list meanwhile. Last, modules that the sender has changed get the same
//! fields, and the roots are pushed.
//!
//! Unpacking that fails (no memory, a module that cannot be found) leaves nothing behind but garbage: an
//! object is never in a state that the collector could not trace.

use super::Globals;
use super::cache::Picture;
use super::graph::{Cursor, Entry, Graph, OWN, Origin, Refs, Sent, TableHead, code};
use super::origin::Crossing;
use super::outside::island_value;
use super::search::Search;
use super::snapshot::{EMPTY, Instance, MAX_INSTANCES, Snapshot};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, LuaClosure, ProtoInst, Table, Upval};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_trace::event::CopiedIn;
use perilune_trace::{Category, emit, on};
use std::sync::Arc;

/// An object that has been made, and what its contents are still to be read with.
#[derive(Clone, Copy)]
pub(super) struct Made {
    obj: Obj,
    tag: Tag,
    array: u32,
    nodes: u32,
    has_metatable: bool,
    /// Elements may be nil.
    holes: bool,
    /// The address of the original that a copy has come home as; 0: none. The copy is filled all the same,
    /// for what is behind it, and forgotten.
    original: u64,
}

impl Made {
    /// Tag and address, if it is something that may be named from outside its graph.
    fn known(&self) -> (u8, u64) {
        let address = if self.original == 0 { self.obj.as_ptr() as u64 } else { self.original };
        match self.tag {
            Tag::TABLE | Tag::CLOSURE => (self.tag.0, address),
            tag => (tag.0, 0),
        }
    }
}

/// What of the receiver's stays as it is.
struct Stays {
    /// Globals that are there.
    globals: bool,
    /// What it has written into modules itself.
    modules: bool,
}

/// Reads one graph.
pub(super) struct Reader<'v, 'g> {
    pub(super) vm: &'v mut Vm,
    words: Cursor<'g>,
    refs: Option<&'g Refs>,
    objects: Vec<Made>,
    filled: usize,
    /// What `ENVIRONMENT` means, by number.
    environments: Vec<Gc<Table>>,
    /// What `_G` means, if not the table of globals.
    globals: Option<Gc<Table>>,
    /// Environments of the graph's own, which `OWN_ENVIRONMENT` means.
    own_environments: Vec<Gc<Table>>,
    /// Tables that get metatables, when these have been filled: what a metatable lacks is remembered in it.
    metatables: Vec<(Gc<Table>, Value)>,
    /// What has left this strand comes home.
    comes_home: bool,
    /// First of the graph's origins that is of an object not made yet.
    next_origin: usize,
    /// Globals that are there already stay what they are.
    keeps: bool,
    /// What this domain has written into modules stays as it is.
    ours_stay: bool,
    /// First of the graph's modules on the stack.
    modules: u32,
    shape: u32,
    /// Of a picture: what its own members come home by.
    token: Option<&'g Arc<Crossing>>,
    /// Of a picture that has been here: copies that are alive still, by number.
    alive: Box<[(u8, u64)]>,
}

impl Vm {
    /// Pushes the roots of a graph.
    pub(super) fn unpack_graph(&mut self, graph: &Graph, globals: Globals) -> LuaResult<u32> {
        let base = self.nargs();
        if on(Category::Gc) {
            let (size, stack, objects) = graph.told();
            emit(CopiedIn { size, stack, objects });
        }
        let result = self.sample_copy_in(graph.sent_at, |vm| vm.unpack_above(graph, globals, base));
        if result.is_err() {
            self.give_up(base);
        }
        result
    }

    fn unpack_above(&mut self, graph: &Graph, globals: Globals, base: u32) -> LuaResult<u32> {
        if graph.refs.as_ref().is_none_or(|refs| refs.pictures.is_empty()) {
            return self.unpack_with_pictures(graph, globals, base);
        }
        self.lua.crossing.parcel.received.begin();
        let result = self.unpack_with_pictures(graph, globals, base);
        self.lua.crossing.parcel.received.end();
        result
    }

    fn unpack_with_pictures(&mut self, graph: &Graph, globals: Globals, base: u32) -> LuaResult<u32> {
        // What is hopeless is not begun.
        let room = graph.room();
        if room > 0 {
            self.ensure_room(room)?;
        }
        self.ensure_stack(graph.roots as usize + 4)?;
        let mut environments = Vec::new();
        let mut search = None;
        if let Some(refs) = &graph.refs {
            match &refs.search {
                Some(theirs) if globals != Globals::Message => self.adopt_search(theirs)?,
                theirs => search = theirs.as_ref(),
            }
            self.meet_pictures(&refs.pictures, globals, search)?;
            for snapshot in &refs.snapshots {
                let env = match globals {
                    Globals::Own => self.install(snapshot, false)?,
                    Globals::Module => self.install(snapshot, true)?,
                    Globals::Task | Globals::Message => {
                        self.instance(snapshot, search, globals == Globals::Message)?
                    }
                };
                self.ensure_stack(graph.roots as usize + 4)?;
                self.push(env.into());
                environments.push(env);
            }
        }
        let mut own = environments.first().copied();
        let (mut own_environments, mut travelled) = (Vec::new(), Vec::new());
        for _ in 0..graph.refs.as_ref().map_or(0, |refs| refs.environments) {
            let (env, globals) = match globals {
                Globals::Own | Globals::Module => (self.globals(), self.globals()),
                Globals::Task | Globals::Message => self.new_environment()?,
            };
            self.ensure_stack(graph.roots as usize + 4)?;
            self.push(env.into());
            own_environments.push(env);
            travelled.push(globals);
        }
        own = own.or(own_environments.first().copied());
        if own.is_none() && globals == Globals::Task && graph.names_globals() {
            let env = self.instance(&EMPTY, None, false)?;
            self.ensure_stack(graph.roots as usize + 4)?;
            self.push(env.into());
            own = Some(env);
        }
        let at = self.nargs();
        self.push_modules(graph, search)?;
        self.ensure_stack(graph.roots as usize + 4)?;
        let mut reader = Reader::new(self, graph, environments, own, at + 1);
        reader.own_environments = own_environments;
        reader.comes_home = globals == Globals::Message;
        reader.ours_stay = globals == Globals::Message;
        reader.keeps = globals == Globals::Module;
        let result = reader.roots(graph, &travelled);
        reader.finish();
        result?;
        // What the stack held meanwhile goes away from below the roots.
        let (count, top) = (graph.roots, self.nargs());
        for n in 0..count {
            let v = self.stack_get(top - count + 1 + n);
            if top - count != base {
                self.stack_set(base + 1 + n, v);
            }
        }
        self.truncate(base + count);
        Ok(count)
    }

    /// Makes what pictures show, unless it is here already, or comes home.
    fn meet_pictures(
        &mut self,
        sent: &[Sent],
        globals: Globals,
        search: Option<&Arc<Search>>,
    ) -> LuaResult<()> {
        let comes_home = globals == Globals::Message;
        let mut needed = vec![false; sent.len()];
        for n in (0..sent.len()).rev() {
            let Sent { picture, token, objects } = &sent[n];
            let token = token.as_ref().expect("a parcel's pictures have tokens");
            let is_home = |&o: &u32| comes_home && self.original_of(picture, token, o).is_some();
            needed[n] |= !objects.iter().all(is_home);
            if needed[n] {
                for other in picture.leans_on() {
                    let at = sent[..n].iter().position(|s| Arc::ptr_eq(&s.picture, &other.picture));
                    needed[at.expect("a parcel has all that its pictures lean on")] = true;
                }
            }
        }
        for (n, Sent { picture, token, .. }) in sent.iter().enumerate() {
            if needed[n] && !self.is_here(picture) {
                let base = self.nargs();
                let token = token.as_ref().expect("as above");
                let made = self.make_instance(picture, token, globals, search);
                self.give_up(base);
                made?;
            }
        }
        Ok(())
    }

    /// Whether what a picture shows has been made here, and is what making it again would give.
    fn is_here(&mut self, picture: &Picture) -> bool {
        if !self.lua.crossing.parcel.received.meet(picture) {
            return false;
        }
        let Some(applied) = self.lua.crossing.parcel.received.take_applied(picture.number) else {
            return true;
        };
        let holds = self.still_applied(&applied);
        if holds {
            self.lua.crossing.parcel.received.give_applied(picture.number, applied);
        }
        holds
    }

    /// The original of an object in a picture, if it has come home.
    fn original_of(&self, picture: &Picture, token: &Arc<Crossing>, object: u32) -> Option<Value> {
        let refs = picture.graph.refs.as_ref()?;
        let at = refs.origins.binary_search_by_key(&object, |o| o.object).ok()?;
        let origin = refs.origins[at];
        let crossing = if origin.crossing == OWN { token } else { &refs.crossings[origin.crossing as usize] };
        self.original(crossing, origin.index)
    }

    fn make_instance(
        &mut self,
        picture: &Arc<Picture>,
        token: &Arc<Crossing>,
        globals: Globals,
        search: Option<&Arc<Search>>,
    ) -> LuaResult<()> {
        let graph = &picture.graph;
        self.make_way(&picture.replaces);
        let room = graph.room();
        if room > 0 {
            self.ensure_room(room)?;
        }
        self.ensure_stack(8)?;
        let (mut environments, mut travelled) = (Vec::new(), Vec::new());
        for _ in 0..graph.refs.as_ref().map_or(0, |refs| refs.environments) {
            let (env, globals) = match globals {
                Globals::Own | Globals::Module => (self.globals(), self.globals()),
                Globals::Task | Globals::Message => self.new_environment()?,
            };
            self.ensure_stack(8)?;
            self.push(env.into());
            environments.push(env);
            travelled.push(globals);
        }
        let at = self.nargs();
        self.push_modules(graph, search)?;
        self.ensure_stack(8)?;
        let alive =
            self.lua.crossing.parcel.received.objects(picture.number).map_or(Box::default(), Into::into);
        let own = environments.first().copied();
        let mut reader = Reader::new(self, graph, Vec::new(), own, at + 1);
        reader.own_environments = environments;
        (reader.token, reader.alive) = (Some(token), alive);
        reader.ours_stay = globals == Globals::Message;
        let result = reader.roots(graph, &travelled);
        let objects = reader.objects.iter().map(Made::known).collect();
        reader.finish();
        result?;
        let applied = self.applied(graph);
        self.lua.crossing.parcel.received.put(picture, objects, applied);
        Ok(())
    }

    /// Everything that may run Lua code. Pushes the modules that a graph refers to, loading those that this
    /// domain has not got.
    fn push_modules(&mut self, graph: &Graph, search: Option<&Arc<Search>>) -> LuaResult<()> {
        let Some(refs) = &graph.refs else { return Ok(()) };
        for object in &refs.shared {
            self.meet_kind(object)?;
        }
        if refs.modules.is_empty() {
            return Ok(());
        }
        self.seal_modules();
        self.ensure_stack(refs.modules.len() + 4)?;
        for module in &refs.modules {
            let loaded = self.get_field(self.registry(), "_LOADED")?;
            let name = self.intern_bytes(&module.name)?;
            let mut v = loaded.as_table().map_or(Value::NIL, |t| self.raw_get_str(t, name));
            if v.is_falsy() {
                let require = self.get_field(self.registry(), "_REQUIRE")?;
                v = match search {
                    // Who gets a message keeps its own paths: theirs are for this module only.
                    Some(theirs) => {
                        let own = self.search();
                        self.set_paths(theirs)?;
                        let v = self.call(require, &[name.into()]);
                        if let Some(own) = own {
                            self.set_paths(&own)?;
                        }
                        v?
                    }
                    None => self.call(require, &[name.into()])?,
                };
            }
            self.push(self.behind_view(v));
        }
        Ok(())
    }

    /// The environment that a snapshot is here.
    fn instance(
        &mut self,
        snapshot: &Arc<Snapshot>,
        search: Option<&Arc<Search>>,
        ours_stay: bool,
    ) -> LuaResult<Gc<Table>> {
        let is_it = |i: &Instance| Arc::ptr_eq(&i.snapshot, snapshot);
        if let Some(at) = self.lua.crossing.parcel.instances.iter().position(is_it) {
            let applied = self.lua.crossing.parcel.instances[at].applied.take();
            if applied.as_ref().is_none_or(|applied| self.still_applied(applied)) {
                let instance = &mut self.lua.crossing.parcel.instances[at];
                (instance.used, instance.applied) = (true, applied);
                // SAFETY: a root as long as it is listed.
                return Ok(unsafe { Gc::from_ptr(instance.tables[0]) });
            }
            self.lua.crossing.parcel.instances.remove(at);
        }
        let refs = snapshot.graph.refs.as_deref();
        let count = refs.map_or(1, |r| r.environments.max(1)) as usize;
        let at = self.nargs();
        self.ensure_stack(count + 4)?;
        let (mut environments, mut travelled) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (env, globals) = self.new_environment()?;
            self.push(env.into());
            environments.push(env);
            travelled.push(globals);
        }
        let tables = environments.iter().map(|t| t.ptr()).collect();
        self.fill_snapshot(
            snapshot,
            environments,
            &travelled,
            search,
            Stays { globals: false, modules: ours_stay },
        )?;
        self.truncate(at);
        if self.lua.crossing.parcel.instances.len() >= MAX_INSTANCES {
            self.lua.crossing.parcel.instances.remove(0);
        }
        let applied = self.applied(&snapshot.graph);
        self.lua.crossing.parcel.instances.push(Instance {
            snapshot: snapshot.clone(),
            tables,
            used: true,
            applied,
        });
        // SAFETY: just made, and listed.
        Ok(unsafe {
            Gc::from_ptr(
                self.lua.crossing.parcel.instances[self.lua.crossing.parcel.instances.len() - 1].tables[0],
            )
        })
    }

    /// Puts the globals of a snapshot into this domain's; `keeps`: as far as it has none of that name.
    fn install(&mut self, snapshot: &Arc<Snapshot>, keeps: bool) -> LuaResult<Gc<Table>> {
        let count = snapshot.graph.refs.as_deref().map_or(1, |r| r.environments.max(1)) as usize;
        let globals = self.globals();
        let stays = Stays { globals: keeps, modules: false };
        self.fill_snapshot(snapshot, vec![globals; count], &vec![globals; count], None, stays)?;
        Ok(globals)
    }

    fn fill_snapshot(
        &mut self,
        snapshot: &Arc<Snapshot>,
        environments: Vec<Gc<Table>>,
        travelled: &[Gc<Table>],
        search: Option<&Arc<Search>>,
        stays: Stays,
    ) -> LuaResult<()> {
        let at = self.nargs();
        self.push_modules(&snapshot.graph, search)?;
        let own = environments.first().copied();
        let mut reader = Reader::new(self, &snapshot.graph, environments, own, at + 1);
        (reader.keeps, reader.ours_stay) = (stays.globals, stays.modules);
        let result = reader.begin().and_then(|()| reader.entries(travelled));
        reader.finish();
        self.truncate(at);
        result
    }

    /// This domain's instance of a prototype that has arrived.
    fn arrived_instance(&mut self, proto: &Arc<perilune_syntax::Proto>) -> LuaResult<*mut ProtoInst> {
        let key = Arc::as_ptr(proto) as usize;
        if let Some(&inst) = self.lua.crossing.parcel.protos.get(&key) {
            return Ok(inst);
        }
        let inst = self.instantiate(proto.clone())?;
        self.lua.crossing.parcel.protos.insert(key, inst);
        Ok(inst)
    }
}

impl<'v, 'g> Reader<'v, 'g> {
    fn new(
        vm: &'v mut Vm,
        graph: &'g Graph,
        environments: Vec<Gc<Table>>,
        globals: Option<Gc<Table>>,
        modules: u32,
    ) -> Reader<'v, 'g> {
        if let Some(refs) = &graph.refs {
            vm.adopt_all(refs);
        }
        let objects = std::mem::take(&mut vm.lua.crossing.parcel.buffers.made);
        Reader {
            vm,
            words: Cursor::new(&graph.words),
            refs: graph.refs.as_deref(),
            objects,
            filled: 0,
            environments,
            globals,
            own_environments: Vec::new(),
            metatables: Vec::new(),
            comes_home: false,
            next_origin: 0,
            keeps: false,
            ours_stay: false,
            modules,
            shape: shape::ROOT,
            token: None,
            alive: Box::default(),
        }
    }

    /// Gives the buffers back.
    fn finish(mut self) {
        const KEPT: usize = 1 << 10;
        if self.objects.capacity() <= KEPT {
            self.objects.clear();
            self.vm.lua.crossing.parcel.buffers.made = self.objects;
        }
    }

    /// Pushes the roots.
    fn roots(&mut self, graph: &Graph, travelled: &[Gc<Table>]) -> LuaResult<()> {
        self.begin()?;
        for _ in 0..graph.roots {
            let v = self.value()?;
            self.vm.push(v);
        }
        self.fill()?;
        self.entries(travelled)
    }

    /// Stores the entries.
    fn entries(&mut self, travelled: &[Gc<Table>]) -> LuaResult<()> {
        let Some(refs) = self.refs else { return self.complete() };
        for entry in &refs.entries {
            if let Entry::Rest { object } = entry {
                self.rest(*object)?;
                self.fill()?;
                continue;
            }
            if let Entry::Inside { module, path } = entry {
                self.inside(*module, path)?;
                continue;
            }
            let v = self.value()?;
            match entry {
                Entry::Field { object, name } => {
                    let name = self.vm.intern_bytes(name)?;
                    let t: Gc<Table> =
                        Value::raw(Tag::TABLE, self.objects[*object as usize].obj.as_ptr() as u64).gc();
                    self.vm.raw_set_field_const(t, name, v)?;
                }
                Entry::Rest { .. } | Entry::Inside { .. } => {}
                Entry::Global { environment, name } => {
                    if !v.is_nil() {
                        let name = self.vm.intern_bytes(name)?;
                        let to = travelled[*environment as usize];
                        if !self.keeps || self.vm.raw_get_str(to, name).is_nil() {
                            self.vm.raw_set_field_const(to, name, v)?;
                        }
                    }
                }
                Entry::Patch { module, field } => {
                    if let Some(t) = self.module(*module).as_table() {
                        self.vm.module_field_arrives(t, field, v, self.ours_stay)?;
                    }
                }
            }
            self.fill()?;
        }
        debug_assert!(self.words.is_at_end());
        self.complete()
    }

    /// What parcels before this one have told of its modules, and this one does not, is taken back: before
    /// anything is looked for in them.
    fn begin(&mut self) -> LuaResult<()> {
        match self.refs {
            Some(refs) if !self.ours_stay && !refs.modules.is_empty() && self.vm.has_arrived() => {
                self.take_back(refs)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn take_back(&mut self, refs: &Refs) -> LuaResult<()> {
        for module in 0..refs.modules.len() as u32 {
            let (mut fields, mut paths) = (Vec::new(), Vec::new());
            for entry in refs.entries.iter().filter(|e| e.module() == Some(module)) {
                match entry {
                    Entry::Patch { field, .. } => fields.push(&**field),
                    Entry::Inside { path, .. } => paths.push(path),
                    _ => {}
                }
            }
            self.vm.take_back(self.module(module), &fields, &paths)?;
        }
        Ok(())
    }

    /// What the sender has written into a table inside a module.
    #[cold]
    fn inside(&mut self, module: u32, path: &super::inside::Path) -> LuaResult<()> {
        let mut fields = Vec::new();
        for _ in 0..self.words.next() {
            let (key, v) = (self.value()?, self.value()?);
            // As it is in tables.
            let key = key.as_string().map_or(key, |s| self.vm.intern(s).into());
            fields.push((key, v));
        }
        let metatable = if self.words.next() != 0 { Some(self.value()?) } else { None };
        self.fill()?;
        match self.vm.inside_receiver(self.module(module), path, self.ours_stay) {
            Some(t) => self.vm.inside_arrives(t, &fields, metatable),
            None => Ok(()),
        }
    }

    /// Keys and values of a table that has come in part, and its metatable.
    #[inline(never)]
    fn rest(&mut self, object: u32) -> LuaResult<()> {
        let t: Gc<Table> = Value::raw(Tag::TABLE, self.objects[object as usize].obj.as_ptr() as u64).gc();
        for _ in 0..self.words.next() {
            let key = self.value()?;
            let v = self.value()?;
            self.vm.raw_set(t, key, v)?;
        }
        let mt = self.value()?;
        if !mt.is_nil() {
            self.metatables.push((t, mt));
        }
        Ok(())
    }

    /// What has to wait until everything is filled: metatables, and freezing.
    fn complete(&mut self) -> LuaResult<()> {
        for (t, mt) in std::mem::take(&mut self.metatables) {
            self.vm.set_metatable_of(t.into(), mt.as_table())?;
        }
        let Some(refs) = self.refs else { return Ok(()) };
        let mut origins = refs.origins.iter().peekable();
        for &number in &refs.frozen {
            while origins.next_if(|o| o.object < number).is_some() {}
            let made = self.objects[number as usize];
            if made.original != 0 {
                continue;
            }
            let origin = origins.peek().filter(|o| o.object == number);
            let origin = origin.and_then(|o| Some((self.crossing_of(refs, o)?, o.index)));
            // SAFETY: made by this reader; nothing is collected while a graph is read.
            unsafe { self.vm.freeze_copy(made.obj, origin) };
        }
        Ok(())
    }

    fn crossing_of(&self, refs: &'g Refs, origin: &Origin) -> Option<&'g Arc<Crossing>> {
        if origin.crossing == OWN { self.token } else { refs.crossings.get(origin.crossing as usize) }
    }

    /// The original that the object to be made next has come home as; in a picture, the copy that is there
    /// already.
    #[inline]
    fn original(&mut self) -> u64 {
        if let Some(&(_, address)) = self.alive.get(self.objects.len()) {
            return address;
        }
        let Some(refs) = self.refs.filter(|refs| self.comes_home && self.next_origin < refs.origins.len())
        else {
            return 0;
        };
        let number = self.objects.len() as u32;
        while refs.origins.get(self.next_origin).is_some_and(|o| o.object < number) {
            self.next_origin += 1;
        }
        match refs.origins.get(self.next_origin) {
            Some(o) if o.object == number => {
                self.vm.original(&refs.crossings[o.crossing as usize], o.index).map_or(0, |v| v.payload())
            }
            _ => 0,
        }
    }

    fn module(&self, module: u32) -> Value {
        self.vm.stack_get(self.modules + module)
    }

    pub(super) fn refs(&self) -> &'g Refs {
        self.refs.expect("the graph refers to something, so it has a list")
    }

    /// Reads a value.
    #[inline]
    fn value(&mut self) -> LuaResult<Value> {
        let word = self.words.next();
        let kind = word as u8;
        let argument = (word >> 8) as usize;
        match kind {
            0..=2 => Ok(Value::raw(Tag(kind), 0)),
            3..=code::NATIVE => Ok(Value::raw(Tag(kind), self.words.next())),
            code::STRING => {
                let bytes = self.words.bytes(argument);
                Ok(self.vm.new_str(bytes)?.into())
            }
            code::TABLE => self.table(word),
            code::REF => {
                let made = &self.objects[argument];
                Ok(Value::raw(
                    made.tag,
                    if made.original == 0 { made.obj.as_ptr() as u64 } else { made.original },
                ))
            }
            _ => self.other(kind, argument),
        }
    }

    #[inline]
    fn table(&mut self, word: u64) -> LuaResult<Value> {
        let head = TableHead::from_words(word, self.words.next());
        if head.shape != self.shape && head.shape != shape::DICT {
            self.adopt(head.shape);
        }
        let kind = ArrayKind::ALL[head.kind as usize];
        let t = self.vm.new_table_of(head.shape, kind, head.array as usize, head.nodes as usize)?;
        let (array, nodes, has_metatable) = (head.array, head.nodes, head.has_metatable);
        let original = self.original();
        self.objects.push(Made {
            obj: t.obj(),
            tag: Tag::TABLE,
            array,
            nodes,
            has_metatable,
            holes: head.has_holes,
            original,
        });
        Ok(if original == 0 { t.into() } else { Value::raw(Tag::TABLE, original) })
    }

    /// Makes the names of a shape known here.
    fn adopt(&mut self, shape: u32) {
        self.shape = shape;
        let adopted = &mut self.vm.lua.crossing.parcel.adopted;
        let (at, bit) = (shape as usize / 64, 1 << (shape % 64));
        if adopted.len() <= at {
            adopted.resize(at + 1, 0);
        }
        if adopted[at] & bit == 0 {
            adopted[at] |= bit;
            self.vm.adopt_shape(shape);
        }
    }

    #[inline(never)]
    fn other(&mut self, kind: u8, argument: usize) -> LuaResult<Value> {
        match kind {
            code::LONG_STRING => {
                let bytes = self.words.bytes(argument);
                let s = self.vm.new_str(bytes)?;
                self.made(s.obj(), Tag::STRING);
                Ok(s.into())
            }
            code::LARGE_STRING => self.large_string(argument),
            code::CLOSURE => {
                let proto = &self.refs().protos[argument];
                let inst = self.vm.arrived_instance(proto)?;
                let c = self.vm.closure_of(inst);
                Ok(self.made(c.obj(), Tag::CLOSURE))
            }
            code::SHARED => {
                let object = self.refs().shared[argument].clone();
                match object.kind().revive {
                    Some(revive) => revive(self.vm, &object),
                    None => Ok(self.vm.shared_ref(object).into()),
                }
            }
            code::ISLAND => Ok(island_value(argument, self.words.next())),
            code::KNOWN => self.known(argument),
            code::PICTURE => {
                let object = self.words.next() as u32;
                Ok(self.in_picture(argument, object))
            }
            code::PARTIAL => {
                let t = self.vm.new_table(0, 0)?;
                Ok(self.made(t.obj(), Tag::TABLE))
            }
            _ => unreachable!("the packer writes no other codes"),
        }
    }

    fn in_picture(&self, n: usize, object: u32) -> Value {
        let Sent { picture, token, .. } = &self.refs().pictures[n];
        if self.comes_home
            && let Some(token) = token
            && let Some(original) = self.vm.original_of(picture, token, object)
        {
            return original;
        }
        let objects = self.vm.lua.crossing.parcel.received.objects(picture.number);
        let (tag, address) = objects.expect("made before the graph is read")[object as usize];
        debug_assert!(address != 0, "what a picture shows is there while its first object is");
        Value::raw(Tag(tag), address)
    }

    /// Lists an object, and gives its value.
    pub(super) fn made(&mut self, obj: Obj, tag: Tag) -> Value {
        let original = self.original();
        self.objects.push(Made {
            obj,
            tag,
            array: 0,
            nodes: 0,
            has_metatable: false,
            holes: false,
            original,
        });
        Value::raw(tag, if original == 0 { obj.as_ptr() as u64 } else { original })
    }

    fn known(&mut self, n: usize) -> LuaResult<Value> {
        let known = &self.refs().known[n];
        let mut v = self.module(known.module);
        if known.fields == [None, None] && *self.refs().modules[known.module as usize].name == *b"_G" {
            v = match self.globals {
                Some(globals) => globals.into(),
                None => self.vm.loaded_globals().unwrap_or(v),
            };
        }
        for field in known.fields.iter().flatten() {
            let key = self.vm.intern_bytes(field)?;
            v = v.as_table().map_or(Value::NIL, |t| self.vm.raw_get_str(t, key));
            if v.is_nil() {
                let module = &self.refs().modules[known.module as usize].name;
                let (module, field) = (String::from_utf8_lossy(module), String::from_utf8_lossy(field));
                return Err(self.vm.error(format!(
                    "the module '{module}' of this domain has no field '{field}', which a value from another \
                     domain refers to"
                )));
            }
        }
        Ok(v)
    }

    // -- Contents -------------------------------------------------------------------------------------------

    /// Reads the contents of all objects made so far, and of those made meanwhile.
    #[inline]
    fn fill(&mut self) -> LuaResult<()> {
        while self.filled < self.objects.len() {
            let made = self.objects[self.filled];
            self.filled += 1;
            if self.vm.heap.is_refused() {
                // Of the system's memory there is only a reserve left.
                return Err(self.vm.out_of_memory());
            }
            let v = Value::raw(made.tag, made.obj.as_ptr() as u64);
            match made.tag {
                Tag::TABLE => self.fill_table(v.gc(), made)?,
                Tag::CLOSURE => self.fill_closure(v.gc())?,
                _ => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn fill_table(&mut self, t: Gc<Table>, made: Made) -> LuaResult<()> {
        for slot in 0..shape::field_count(t.shape) as usize {
            let v = self.value()?;
            // SAFETY: a table made by `new_table_of`; nothing is collected while a graph is read.
            unsafe { t.init_slot(slot, v) };
        }
        if made.array > 0 {
            let len = made.array as usize;
            // SAFETY: as above; room for `array` elements of the kind was made, and the sender says whether
            // one is nil.
            unsafe {
                match t.kind {
                    ArrayKind::General => {
                        for at in 0..len {
                            let v = self.value()?;
                            t.init_element(at, v);
                        }
                    }
                    ArrayKind::Int | ArrayKind::Float => t.init_numbers(self.words.words(len)),
                    ArrayKind::Bool => t.init_booleans(self.words.bytes(len)),
                }
                t.init_length(made.holes);
            }
        }
        for _ in 0..made.nodes {
            let mut key = self.value()?;
            if let Some(s) = key.as_string() {
                key = self.vm.intern(s).into();
            }
            let v = self.value()?;
            // SAFETY: as above; keys are distinct in the sender, so they are here.
            unsafe { t.init_node(key, v) };
        }
        if made.has_metatable {
            let mt = self.value()?;
            self.metatables.push((t, mt));
        }
        Ok(())
    }

    fn fill_closure(&mut self, c: Gc<LuaClosure>) -> LuaResult<()> {
        for n in 0..c.inst().num_upvalues as usize {
            let word = self.words.next();
            let argument = (word >> 8) as usize;
            let uv: *mut Upval = match word as u8 {
                code::REF => self.objects[argument].obj.as_ptr().cast(),
                code::ENVIRONMENT => self.vm.new_closed_upvalue(self.environments[argument].into()),
                code::OWN_ENVIRONMENT => self.vm.new_closed_upvalue(self.own_environments[argument].into()),
                _ => {
                    let uv = self.vm.new_closed_upvalue(Value::NIL);
                    // SAFETY: just made.
                    self.made(unsafe { Gc::from_ptr(uv) }.obj(), Tag::UPVAL);
                    let v = self.value()?;
                    // SAFETY: as above; newborn, so no barrier.
                    unsafe { (*uv).closed = v };
                    // A variable that has crossed is a constant.
                    // SAFETY: as above.
                    unsafe { self.vm.freeze_copy(Gc::from_ptr(uv).obj(), None) };
                    uv
                }
            };
            // SAFETY: the closure has room for as many upvalues as its prototype says; newborn.
            unsafe { *(&raw mut (*c.ptr()).upvals as *mut *mut Upval).add(n) = uv };
        }
        Ok(())
    }
}
