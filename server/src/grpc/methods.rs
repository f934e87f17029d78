//! The methods there are, by their paths: names that may stand in metrics, as no caller can invent one.

use std::collections::HashMap;

use contextstore_proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::FileDescriptorSet;

/// A method and its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) service: &'static str,
    pub(super) name: &'static str,
    /// Whether it takes one message, rather than a stream of them.
    pub(super) takes_one: bool,
}

/// What nobody serves.
const OTHER: Method = Method { service: "other", name: "other", takes_one: false };

/// All of them.
#[derive(Debug)]
pub(super) struct Methods(HashMap<String, Method>);

impl Default for Methods {
    fn default() -> Self {
        let sets = [
            FILE_DESCRIPTOR_SET,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let files = sets.into_iter().filter_map(|set| FileDescriptorSet::decode(set).ok());
        let mut methods = HashMap::new();
        for file in files.flat_map(|set| set.file) {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                // Names of metrics live as long as the process; there is a handful, made once.
                let name: &'static str = name.leak();
                for found in &service.method {
                    let method: &'static str = found.name().to_owned().leak();
                    let takes_one = !found.client_streaming();
                    methods.insert(
                        format!("/{name}/{method}"),
                        Method { service: name, name: method, takes_one },
                    );
                }
            }
        }
        Self(methods)
    }
}

impl Methods {
    pub(super) fn find(&self, path: &str) -> Method {
        self.0.get(path).copied().unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_their_exact_paths() {
        let methods = Methods::default();
        assert_eq!(methods.find("/contextstore.v1.ContextStore/GetTask").name, "GetTask");
        assert!(methods.find("/contextstore.v1.ContextStore/WatchTask").takes_one);
        assert!(!methods.find("/contextstore.v1.ContextStore/AppendMessages").takes_one);
        assert_eq!(methods.find("/grpc.health.v1.Health/Check").service, "grpc.health.v1.Health");
        assert_eq!(methods.find("/contextstore.v1.ContextStore/Invented"), OTHER);
    }
}
