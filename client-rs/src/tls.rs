//! TLS: whom the client trusts, and how it shows who it is.

use std::error::Error as StdError;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::Error;

/// A file of certificates that is longer is some other file.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// Files with certificates and a key, in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    /// Who may vouch for the server; without it, those that the machine trusts.
    pub(crate) ca_file: Option<PathBuf>,
    /// The client's own certificate, with those between it and its CA.
    pub(crate) cert_file: Option<PathBuf>,
    /// The key of that certificate.
    pub(crate) key_file: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of the address.
    pub(crate) server_name: Option<String>,
}

impl Tls {
    /// What the environment names.
    pub(crate) fn of_vars(var: impl Fn(&str) -> Option<OsString>) -> Self {
        let file = |name| var(name).map(PathBuf::from);
        Self {
            ca_file: file("CONTEXTSTORE_CA_FILE"),
            cert_file: file("CONTEXTSTORE_CERT_FILE"),
            key_file: file("CONTEXTSTORE_KEY_FILE"),
            server_name: None,
        }
    }

    /// These, and the others where there are none.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            ca_file: self.ca_file.or(others.ca_file),
            cert_file: self.cert_file.or(others.cert_file),
            key_file: self.key_file.or(others.key_file),
            server_name: self.server_name.or(others.server_name),
        }
    }

    /// The first setting that is there, if any is.
    pub(crate) fn setting(&self) -> Option<&'static str> {
        let file = |name, file: &Option<PathBuf>| file.is_some().then_some(name);
        file("ca_file", &self.ca_file)
            .or(file("cert_file", &self.cert_file))
            .or(file("key_file", &self.key_file))
            .or(self.server_name.is_some().then_some("server_name"))
    }

    pub(crate) fn config(&self) -> Result<ClientTlsConfig, Error> {
        let mut config = ClientTlsConfig::new();
        config = match &self.ca_file {
            Some(file) => config.ca_certificate(Certificate::from_pem(read_pem("ca_file", file)?)),
            None => config.with_native_roots(),
        };
        config = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => config.identity(Identity::from_pem(
                read_pem("cert_file", certificate)?,
                read_pem("key_file", key)?,
            )),
            (None, None) => config,
            (Some(_), None) => return Err(Error::config("cert_file", "is of no use without key_file")),
            (None, Some(_)) => return Err(Error::config("key_file", "is of no use without cert_file")),
        };
        Ok(match &self.server_name {
            Some(name) => config.domain_name(name),
            None => config,
        })
    }
}

/// What an error of the transport is about: the last of its causes.
pub(crate) fn cause(error: &tonic::transport::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[expect(clippy::disallowed_methods, reason = "the user names the file, and what is read is bounded")]
fn read_pem(setting: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let mut pem = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut pem));
    read.map_err(|error| Error::config(setting, format!("cannot be read, {}: {error}", path.display())))?;
    let begin = b"-----BEGIN ";
    if !pem.windows(begin.len()).any(|bytes| bytes == begin) {
        return Err(Error::config(setting, format!("is not PEM: {}", path.display())));
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_a_key() {
        let said = |tls: Tls| tls.config().unwrap_err().to_string();
        let file = || Some(PathBuf::from("/gone/x.pem"));
        let half = Tls { cert_file: file(), ..Tls::default() };
        assert_eq!(said(half), "cert_file is of no use without key_file");
        let half = Tls { key_file: file(), ..Tls::default() };
        assert_eq!(said(half), "key_file is of no use without cert_file");
        let gone = said(Tls { ca_file: file(), ..Tls::default() });
        assert!(gone.starts_with("ca_file cannot be read, /gone/x.pem: "), "{gone}");
        let other = said(Tls { ca_file: Some("/proc/self/status".into()), ..Tls::default() });
        assert_eq!(other, "ca_file is not PEM: /proc/self/status");
    }

    #[test]
    fn what_is_given_goes_before_what_is_there() {
        let given = Tls { ca_file: Some("/a".into()), ..Tls::default() };
        let of_env = Tls::of_vars(|name| Some(format!("/{name}").into()));
        let both = given.or(of_env);
        assert_eq!(both.ca_file.as_deref(), Some(Path::new("/a")));
        assert_eq!(both.key_file.as_deref(), Some(Path::new("/CONTEXTSTORE_KEY_FILE")));
        assert_eq!((both.setting(), Tls::default().setting()), (Some("ca_file"), None));
    }
}
