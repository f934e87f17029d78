//! The Rust client over TLS: a proxy that speaks it stands before a real server, as one in a cluster would.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contextstore_client::{Client, Error, NewMessage, StartTask};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;

use test_support::server::TestServer;

/// Who vouches for both sides.
struct Ca {
    dir: tempfile::TempDir,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "CA of a test");
        let own = params.self_signed(&key).unwrap();
        fs::write(dir.path().join("ca.pem"), own.pem()).unwrap();
        let der = own.der().clone();
        Self { dir, der, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate and its key.
    fn certify(&self, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate, key)
    }

    /// Speaks TLS at a port of its own, and passes on what comes; answers the port.
    async fn stand_before(&self, socket: &Path, names: &[&str], asks_who: bool) -> u16 {
        let (certificate, key) = self.certify(names);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = if asks_who {
            let mut roots = RootCertStore::empty();
            roots.add(self.der.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            config.with_no_client_auth()
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = socket.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, socket) = (acceptor.clone(), socket.clone());
                tokio::spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut server = UnixStream::connect(socket).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        port
    }
}

async fn works(client: &Client) {
    let task = client.start_task(StartTask::default()).await.unwrap();
    assert_eq!(task.append(NewMessage::user("hi")).await.unwrap().seq, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_recognised_by_its_certificate() {
    let server = TestServer::start().await;
    let ca = Ca::new();
    let port = ca.stand_before(&server.socket(), &["localhost", "127.0.0.1"], false).await;
    for host in ["localhost", "127.0.0.1"] {
        let builder = Client::builder().address(format!("tls:{host}:{port}")).ca_file(ca.file("ca.pem"));
        let client = builder.token(server.token()).connect().await.unwrap();
        assert_eq!(client.address().to_string(), format!("tls:{host}:{port}"));
        works(&client).await;
    }

    // Whom nobody vouches for is not spoken to.
    let at = || Client::builder().address(format!("tls:localhost:{port}"));
    let other = Ca::new();
    for builder in [at().ca_file(other.file("ca.pem")), at()] {
        let refused = builder.connect().await.unwrap_err();
        assert!(matches!(refused, Error::Connection { .. }), "{refused:?}");
        assert!(refused.to_string().contains("certificate"), "{refused}");
    }
    // Nor one of another name, unless that is the one that is expected.
    let port = ca.stand_before(&server.socket(), &["store.example.org"], false).await;
    let at = || Client::builder().address(format!("tls:localhost:{port}")).ca_file(ca.file("ca.pem"));
    let refused = at().connect().await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    works(&at().server_name("store.example.org").connect().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shows_its_certificate_to_who_asks() {
    let server = TestServer::start().await;
    let ca = Ca::new();
    let port = ca.stand_before(&server.socket(), &["localhost"], true).await;
    let at = || Client::builder().address(format!("tls:localhost:{port}")).ca_file(ca.file("ca.pem"));
    let (certificate, key) = ca.certify(&["agent"]);
    fs::write(ca.file("cert.pem"), certificate.pem()).unwrap();
    fs::write(ca.file("key.pem"), key.serialize_pem()).unwrap();
    let known = at().cert_file(ca.file("cert.pem")).key_file(ca.file("key.pem"));
    works(&known.connect().await.unwrap()).await;

    // Over TLS 1.3 it is told after the connection is made.
    let unknown =
        async { at().retry(contextstore_client::RetryPolicy::none()).connect().await?.server_info().await };
    let refused = unknown.await.unwrap_err();
    assert!(matches!(refused, Error::Connection { .. }), "{refused:?}");
    let mixed = at().cert_file(ca.file("cert.pem")).key_file(ca.file("ca.pem")).connect().await.unwrap_err();
    assert!(matches!(mixed, Error::Config { .. }), "{mixed:?}");
}
