//! Certificates for tests, made when they run, so that no date in the project can pass.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use std::path::Path;

/// An authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Writes `name.pem` and `name.key`: a certificate for these names.
    fn sign(&self, dir: &Path, name: &str, names: &[&str], change: impl FnOnce(&mut CertificateParams)) {
        let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        write(dir, &format!("{name}.pem"), &certificate.pem());
        write(dir, &format!("{name}.key"), &key.serialize_pem());
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("a writable folder");
}

/// Writes into a folder the certificates that the scripts of `tests/tls` and the pages of the manual speak
/// of:
///
/// | | |
/// |---|---|
/// | `ca.pem`, `other_ca.pem` | authorities |
/// | `server.pem`, `server.key` | for `localhost`, `127.0.0.1` |
/// | `a.pem`, `a.key`; `b.pem`, `b.key` | for `a.example`; for `b.example` and `*.b.example` |
/// | `expired.pem`, `early.pem`, with keys | for `localhost`, at other times |
/// | `alice.pem`, `alice.key` | a client |
/// | `mallory.pem`, `mallory.key` | a client of the other authority |
/// | `own.pem`, `own.key` | for `localhost`, signed by itself |
pub fn write_all(dir: &Path) {
    let ca = Authority::new("An authority for tests");
    let other = Authority::new("Another authority");
    write(dir, "ca.pem", &ca.pem);
    write(dir, "other_ca.pem", &other.pem);
    ca.sign(dir, "server", &["localhost", "127.0.0.1"], |_| ());
    ca.sign(dir, "a", &["a.example"], |_| ());
    ca.sign(dir, "b", &["b.example", "*.b.example"], |_| ());
    ca.sign(dir, "expired", &["localhost"], |params| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 29);
    });
    ca.sign(dir, "early", &["localhost"], |params| {
        params.not_before = date_time_ymd(4000, 1, 1);
        params.not_after = date_time_ymd(4001, 1, 1);
    });
    let client = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    };
    ca.sign(dir, "alice", &["alice.example"], client);
    other.sign(dir, "mallory", &["mallory.example"], client);
    let params = CertificateParams::new(["localhost".to_owned()]).expect("names");
    let key = KeyPair::generate().expect("a key");
    write(dir, "own.pem", &params.self_signed(&key).expect("a certificate").pem());
    write(dir, "own.key", &key.serialize_pem());
}
