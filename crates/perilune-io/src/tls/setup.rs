//! Setups: what handshakes begin from, made once for equal wishes.
//!
//! A session can be resumed within the setup that it was made with: a client keeps what servers have given it
//! there, a server the keys with which it has sealed that. So the last [`KEPT`] setups of the process are
//! kept, by everything that they are made from, the contents of files included: a renewed certificate is
//! another setup. Because trust is a part of the setup, nobody resumes without verification what was begun
//! without it.

use super::certificate::{ByName, Identity, Pem};
use super::trouble;
use crate::failure::Failure;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore, ServerConfig, SignatureScheme,
};
use std::sync::{Arc, OnceLock};

/// What handshakes begin from.
#[derive(Clone)]
pub enum Setup {
    /// On the side that has connected.
    Client {
        /// The setup proper.
        config: Arc<ClientConfig>,
        /// Whom the server has to be.
        name: ServerName<'static>,
    },
    /// On the side that has accepted.
    Server(Arc<ServerConfig>),
}

/// What a client wants.
#[derive(PartialEq, Eq)]
pub struct ClientWish {
    /// Whom it trusts; `None`: whom the system does.
    pub authorities: Option<Vec<Pem>>,
    /// Who it is.
    pub identity: Option<Identity>,
    /// The protocols that it speaks.
    pub alpn: Vec<Vec<u8>>,
    /// It trusts everybody.
    pub insecure: bool,
}

/// What a server wants.
#[derive(PartialEq, Eq)]
pub struct ServerWish {
    /// Who it is, by several names.
    pub identities: Vec<Identity>,
    /// The protocols that it speaks.
    pub alpn: Vec<Vec<u8>>,
    /// Clients have to show certificates of these authorities.
    pub client_authorities: Option<Vec<Pem>>,
}

/// So many setups are kept.
const KEPT: usize = 64;

/// The last setups, the latest last.
struct Cache<W, C>(Mutex<Vec<(W, Arc<C>)>>);

impl<W: PartialEq, C> Cache<W, C> {
    const fn new() -> Self {
        Cache(Mutex::new(Vec::new()))
    }

    fn get(&self, wish: W, make: impl FnOnce(&W) -> Result<C, Failure>) -> Result<Arc<C>, Failure> {
        let mut kept = self.0.lock();
        if let Some(at) = kept.iter().position(|(w, _)| *w == wish) {
            let entry = kept.remove(at);
            let config = Arc::clone(&entry.1);
            kept.push(entry);
            return Ok(config);
        }
        drop(kept);
        let config = Arc::new(make(&wish)?);
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((wish, Arc::clone(&config)));
        Ok(config)
    }
}

impl ClientWish {
    /// The setup.
    ///
    /// # Errors
    /// What it is made from cannot be used.
    pub fn config(self) -> Result<Arc<ClientConfig>, Failure> {
        static CACHE: Cache<ClientWish, ClientConfig> = Cache::new();
        CACHE.get(self, ClientWish::make)
    }

    fn make(&self) -> Result<ClientConfig, Failure> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(Arc::clone(&provider))))
        } else {
            let roots = match &self.authorities {
                Some(authorities) => store(authorities)?,
                None => system_roots()?,
            };
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|e| Failure::Tls(e.to_string()))?;
            builder.with_webpki_verifier(verifier)
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = Arc::new(identity.load(&provider)?);
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
            }
        };
        config.alpn_protocols.clone_from(&self.alpn);
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(config)
    }
}

impl ServerWish {
    /// The setup.
    ///
    /// # Errors
    /// What it is made from cannot be used.
    pub fn config(self) -> Result<Arc<ServerConfig>, Failure> {
        static CACHE: Cache<ServerWish, ServerConfig> = Cache::new();
        CACHE.get(self, ServerWish::make)
    }

    fn make(&self) -> Result<ServerConfig, Failure> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(store(authorities)?, Arc::clone(&provider))
                    .build()
                    .map_err(|e| Failure::Tls(e.to_string()))?,
            ),
        };
        let keys: Result<Vec<_>, _> =
            self.identities.iter().map(|i| i.load(&provider).map(Arc::new)).collect();
        let mut config = builder.with_cert_resolver(Arc::new(ByName(keys?)));
        config.alpn_protocols.clone_from(&self.alpn);
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        config.key_log = Arc::new(KeyLogFile::new());
        Ok(config)
    }
}

fn unusable(error: Error) -> Failure {
    Failure::Tls(trouble::words(&error, "the other end"))
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(ring::default_provider())))
}

fn store(authorities: &[Pem]) -> Result<Arc<RootCertStore>, Failure> {
    let mut store = RootCertStore::empty();
    for file in authorities {
        for certificate in file.certificates()? {
            store.add(certificate).map_err(|error| {
                Failure::Tls(format!("a certificate in {} cannot be read: {error}", file.name))
            })?;
        }
    }
    Ok(Arc::new(store))
}

/// The authorities that the system trusts, read at first use. That there are none is looked at again the next
/// time.
fn system_roots() -> Result<Arc<RootCertStore>, Failure> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map(|e| format!(" ({e})")).unwrap_or_default();
        return Err(Failure::Tls(format!(
            "this system has no certificates of authorities{why}: install them (ca-certificates), name a \
             file with SSL_CERT_FILE, or say whom to trust with tls={{ca=...}}"
        )));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(store))))
}

/// For `insecure=true`: whoever it is, the server has to have the key of the certificate that it shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
