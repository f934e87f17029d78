//! HTTPS: a certificate for this machine, signed by a CA that lives as long as the process.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// Makes CA and certificate, and writes the CA's to a file. HTTP/2 is offered before HTTP/1.1.
#[expect(clippy::disallowed_methods, reason = "a file for a test, which is gone with it")]
pub(crate) fn acceptor(ca_file: &Path) -> io::Result<TlsAcceptor> {
    let ca_key = KeyPair::generate().map_err(io::Error::other)?;
    let mut ca = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "CA of fake-llm");
    std::fs::write(ca_file, ca.self_signed(&ca_key).map_err(io::Error::other)?.pem())?;
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let own = CertificateParams::new(names).map_err(io::Error::other)?;
    let own = own.signed_by(&key, &issuer).map_err(io::Error::other)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    // Whoever comes second finds it done.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
