//! Certificates and keys: reading them, what names they hold, which of a server's is meant.

use crate::failure::Failure;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use std::sync::Arc;

/// What a file, or a text that stands in the program, holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// What messages call it.
    pub name: String,
    /// The text.
    pub bytes: Vec<u8>,
}

impl Pem {
    /// What a program has written: the text itself, or a file's name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(what: &str, written: Vec<u8>) -> Result<Pem, Failure> {
        if memchr::memmem::find(&written, b"-----BEGIN").is_some() {
            return Ok(Pem { name: format!("the text of '{what}'"), bytes: written });
        }
        let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(&written);
        let name = format!("'{}'", path.display());
        match std::fs::read(path) {
            Ok(bytes) => Ok(Pem { name, bytes }),
            Err(error) => {
                let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                Err(Failure::Of(format!("cannot read {name} (option '{what}')"), errno))
            }
        }
    }

    /// All certificates in it.
    ///
    /// # Errors
    /// There are none, or they cannot be read.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => Err(Failure::Tls(format!(
                "{} holds no certificate: expected a PEM file with '-----BEGIN CERTIFICATE-----'",
                self.name
            ))),
            Err(_) => Err(Failure::Tls(format!("{} is no PEM file that can be read", self.name))),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, Failure> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|_| {
            Failure::Tls(format!(
                "{} holds no private key: expected a PEM file with '-----BEGIN PRIVATE KEY-----' (keys with \
                 a passphrase cannot be read)",
                self.name
            ))
        })
    }
}

/// A certificate with those that lead from it to an authority, and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificates.
    pub chain: Pem,
    /// The key; `None`: it stands with the certificates.
    pub key: Option<Pem>,
}

impl Identity {
    /// What handshakes need of it.
    ///
    /// # Errors
    /// One of the two cannot be read, or they do not belong together.
    pub fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, Failure> {
        let chain = self.chain.certificates()?;
        let file = self.key.as_ref().unwrap_or(&self.chain);
        CertifiedKey::from_der(chain, file.key()?, provider).map_err(|error| {
            Failure::Tls(match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    format!(
                        "the key in {} does not belong to the certificate in {}",
                        file.name, self.chain.name
                    )
                }
                error => format!("the key in {} cannot be used: {error}", file.name),
            })
        })
    }
}

/// A server's certificates. A client that asks for a name gets the first one that is for it; one that asks
/// for none, or for another, gets the first of all, and refuses it with a message that says whom it has met.
#[derive(Debug)]
pub struct ByName(pub Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let meant = asked.and_then(|name| self.0.iter().find(|key| is_for(key, &name)));
        meant.or(self.0.first()).cloned()
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = key.cert.first().map(webpki::EndEntityCert::try_from);
    matches!(certificate, Some(Ok(c)) if c.verify_is_valid_for_subject_name(name).is_ok())
}

/// The names of the system (DNS) that a certificate is for.
pub fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    match webpki::EndEntityCert::try_from(certificate) {
        Ok(certificate) => certificate.valid_dns_names().map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

/// The subject's common name, which is how people call the owner.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut body, _) = element(certificate, SEQUENCE)?;
    if let Some((_, rest)) = element(body, 0xa0) {
        body = rest; // the version
    }
    // The serial number, the signature's algorithm, the issuer, the time of validity.
    for tag in [0x02, SEQUENCE, SEQUENCE, SEQUENCE] {
        body = element(body, tag)?.1;
    }
    let (mut subject, _) = element(body, SEQUENCE)?;
    let mut found = None;
    while let Some((set, rest)) = element(subject, 0x31) {
        subject = rest;
        let (pair, _) = element(set, SEQUENCE)?;
        let (kind, value) = element(pair, 0x06)?;
        // id-at-commonName, 2.5.4.3
        if kind == [0x55, 0x04, 0x03] {
            let text = [0x0c, 0x13, 0x16].into_iter().find_map(|tag| element(value, tag));
            found = text.map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned());
        }
    }
    found
}

/// The element of this kind that bytes of DER begin with, and what is behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0, |n, &digit| n << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate(common_name: Option<&str>, names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|&n| n.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "nobody");
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_found() {
        let der = certificate(Some("Jörg"), &["a.example", "*.b.example"]);
        assert_eq!(common_name(&der).as_deref(), Some("Jörg"));
        assert_eq!(names(&der.into()), ["a.example", "*.b.example"]);
        assert_eq!(common_name(&certificate(None, &["a.example"])), None);
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_names() {
        let der = certificate(Some("x"), &["a.example"]);
        for n in 0..der.len() {
            let _ = common_name(&der[..n]);
            let mut changed = der.clone();
            changed[n] ^= 0x81;
            let _ = common_name(&changed);
        }
        assert!(names(&b"nonsense".to_vec().into()).is_empty());
    }
}
