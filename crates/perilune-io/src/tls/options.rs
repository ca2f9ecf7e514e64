//! Tables of options for TLS, as setups.

use super::certificate::{Identity, Pem};
use super::setup::{ClientWish, ServerWish, Setup};
use crate::failure::Failure;
use crate::options;
use perilune_vm::{Gc, LuaResult, Table, Type, Value, Vm};
use rustls::pki_types::ServerName;

/// What there is for clients.
const CLIENT: &[&str] = &["ca", "cert", "key", "alpn", "name", "insecure"];
/// What there is for servers.
const SERVER: &[&str] = &["certs", "cert", "key", "alpn", "client_ca"];

/// A client's setup from a table, or from `true`. `host`: where it has connected to. `beside`: what else may
/// be in the table.
///
/// # Errors
/// A mistake in the table; what is wrong without one is the inner result.
pub fn client_setup(
    vm: &mut Vm,
    tls: Value,
    host: Option<&str>,
    beside: &[&str],
) -> LuaResult<Result<Setup, Failure>> {
    let table = match tls.as_table() {
        Some(table) => table,
        None if tls.type_of() == Type::Boolean && !tls.is_falsy() => vm.new_table(0, 0)?,
        None => return Err(vm.error("option 'tls' must be a table, or true")),
    };
    vm.push(table.into());
    options::check(vm, table, &[CLIENT, beside].concat())?;
    let name = match (options::text(vm, table, "name")?, host) {
        (Some(name), _) => String::from_utf8_lossy(&name).into_owned(),
        (None, Some(host)) => host.to_owned(),
        (None, None) => {
            return Err(vm.error("whom the server has to be is not known here: say tls={name=...}"));
        }
    };
    let Ok(name) = ServerName::try_from(name.clone()) else {
        return Err(vm.error(format!("'{name}' is no name that a certificate could be for")));
    };
    let insecure = options::flag(vm, table, "insecure")?.unwrap_or(false);
    let alpn = alpn(vm, table)?;
    let authorities = texts(vm, table, "ca")?;
    let identity = identity(vm, table)?;
    vm.pop();
    let config = || -> Result<Setup, Failure> {
        let authorities = authorities.map(|texts| read_all("ca", texts)).transpose()?;
        let identity = identity.map(Written::read).transpose()?;
        let config = ClientWish { authorities, identity, alpn, insecure }.config()?;
        Ok(Setup::Client { config, name })
    };
    Ok(config())
}

/// A server's setup from a table. `beside`: what else may be in it.
///
/// # Errors
/// As [`client_setup`].
pub fn server_setup(vm: &mut Vm, tls: Value, beside: &[&str]) -> LuaResult<Result<Setup, Failure>> {
    let Some(table) = tls.as_table() else {
        return Err(vm.error("option 'tls' must be a table with the server's certificate: {cert=, key=}"));
    };
    vm.push(table.into());
    options::check(vm, table, &[SERVER, beside].concat())?;
    let mut identities = Vec::new();
    identities.extend(identity(vm, table)?);
    let certs = vm.get_field(table, "certs")?;
    match certs.as_table() {
        Some(list) => {
            for n in 1..=vm.raw_len(list) {
                let Some(entry) = vm.raw_get_int(list, n).as_table() else {
                    return Err(vm.error("option 'certs' must be a list of {cert=, key=}"));
                };
                options::check(vm, entry, &["cert", "key"])?;
                match identity(vm, entry)? {
                    Some(identity) => identities.push(identity),
                    None => return Err(vm.error(format!("option 'certs': entry {n} has no 'cert'"))),
                }
            }
        }
        None if certs.is_nil() => {}
        None => {
            return Err(vm.error(
                "option 'certs' must be a list of {cert=, key=}; one certificate is written cert=, key=",
            ));
        }
    }
    if identities.is_empty() {
        return Err(vm.error("a server needs a certificate: say tls={cert=, key=} or tls={certs={...}}"));
    }
    let alpn = alpn(vm, table)?;
    let authorities = texts(vm, table, "client_ca")?;
    vm.pop();
    let config = || -> Result<Setup, Failure> {
        let identities = identities.into_iter().map(Written::read).collect::<Result<_, _>>()?;
        let client_authorities = authorities.map(|texts| read_all("client_ca", texts)).transpose()?;
        Ok(Setup::Server(ServerWish { identities, alpn, client_authorities }.config()?))
    };
    Ok(config())
}

/// An identity as a program writes it.
struct Written {
    cert: Vec<u8>,
    key: Option<Vec<u8>>,
}

impl Written {
    fn read(self) -> Result<Identity, Failure> {
        let chain = Pem::read("cert", self.cert)?;
        let key = self.key.map(|key| Pem::read("key", key)).transpose()?;
        Ok(Identity { chain, key })
    }
}

fn identity(vm: &mut Vm, table: Gc<Table>) -> LuaResult<Option<Written>> {
    let cert = options::text(vm, table, "cert")?;
    let key = options::text(vm, table, "key")?;
    match (cert, key) {
        (Some(cert), key) => Ok(Some(Written { cert, key })),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err(vm.error("option 'key' is the key of a certificate: option 'cert' is missing"))
        }
    }
}

fn read_all(what: &str, texts: Vec<Vec<u8>>) -> Result<Vec<Pem>, Failure> {
    texts.into_iter().map(|text| Pem::read(what, text)).collect()
}

fn alpn(vm: &mut Vm, table: Gc<Table>) -> LuaResult<Vec<Vec<u8>>> {
    let names = texts(vm, table, "alpn")?.unwrap_or_default();
    if names.iter().any(|name| name.is_empty() || name.len() > 255) {
        return Err(vm.error("option 'alpn': the name of a protocol has 1 to 255 bytes"));
    }
    Ok(names)
}

/// A string, or a list of some.
fn texts(vm: &mut Vm, table: Gc<Table>, name: &str) -> LuaResult<Option<Vec<Vec<u8>>>> {
    let value = vm.get_field(table, name)?;
    let Some(list) = value.as_table() else {
        return match value.as_string() {
            _ if value.is_nil() => Ok(None),
            Some(text) => Ok(Some(vec![text.bytes().to_vec()])),
            None => Err(vm.error(format!("option '{name}' must be a string or a list of strings"))),
        };
    };
    let mut found = Vec::new();
    for n in 1..=vm.raw_len(list) {
        match vm.raw_get_int(list, n).as_string() {
            Some(text) => found.push(text.bytes().to_vec()),
            None => {
                return Err(vm.error(format!("option '{name}' must be a string or a list of strings")));
            }
        }
    }
    if found.is_empty() {
        return Err(vm.error(format!("option '{name}' is an empty list")));
    }
    Ok(Some(found))
}
