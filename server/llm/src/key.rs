//! API keys. They are read for each request, so that a new key needs no restart, and never appear in logs, files or
//! errors.

use std::fmt;

use http::HeaderValue;

use crate::ProviderSettings;
use crate::infra::secret;

/// An API key. Its `Debug` output is redacted.
pub(super) struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl ApiKey {
    /// Reads the current key of a provider. `None` if the provider needs none.
    pub(super) fn read(config: &ProviderSettings) -> Result<Option<Self>, String> {
        let text = match (&config.api_key_file, &config.api_key_env) {
            (Some(path), _) => {
                secret::read(path).map_err(|error| format!("api_key_file {}: {error}", path.display()))?
            }
            (None, Some(name)) => std::env::var(name).map_err(|_| {
                format!("the variable {name} is not set (api_key_env; `none` if no key is needed)")
            })?,
            (None, None) => return Ok(None),
        };
        let text = text.trim();
        if text.is_empty() {
            return Err("the key is empty (api_key_env, api_key_file)".to_owned());
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the key has characters that no key has (api_key_env, api_key_file)".to_owned());
        }
        Ok(Some(Self(text.to_owned())))
    }

    /// Returns the key itself, to remove it from texts.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a header value that ends with the key.
    pub(super) fn header(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes the file of an operator")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_file_is_private_and_read_each_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = ProviderSettings {
            base_url: String::new(),
            api_key_env: Some("NOBODY_SETS_THIS".to_owned()),
            api_key_file: Some(file.path().to_owned()),
            model: None,
            max_output_tokens: None,
            context_length: None,
            timeout: Duration::ZERO,
        };
        for key in ["sk-1", "sk-2"] {
            fs::write(file.path(), format!("{key}\n")).unwrap();
            let read = ApiKey::read(&config).unwrap().unwrap();
            assert_eq!(read.expose(), key);
            assert_eq!(format!("{read:?}"), "[key]");
            assert_eq!(format!("{:?}", read.header("Bearer ").unwrap()), "Sensitive");
        }
        for (text, problem) in [("", "is empty"), ("a b", "characters that no key has")] {
            fs::write(file.path(), text).unwrap();
            assert!(ApiKey::read(&config).unwrap_err().contains(problem));
        }
        fs::write(file.path(), "sk-3").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let refused = ApiKey::read(&config).unwrap_err();
        assert!(refused.contains("mode 644") && !refused.contains("sk-3"), "{refused}");
        let config = ProviderSettings { api_key_file: None, ..config };
        assert!(ApiKey::read(&config).unwrap_err().contains("NOBODY_SETS_THIS is not set"));
        let config = ProviderSettings { api_key_env: None, ..config };
        assert!(ApiKey::read(&config).unwrap().is_none());
    }
}
