//! The short names of the enums' values: what JSON, the command line, configuration files and logs use.

use crate::v1::{
    BreakerState, CompressSkipReason, CompressStage, CompressionPreset, CompressionStrategy, Durability,
    InheritMode, LimitSource, PressureStage, Provider, RecordKind, RewriteKind, Role, Summarizer,
    SummaryAuthor, TaskComplexity, TaskHealth, TaskOrder, TaskStatus, TokenCounter, ToolCallStatus,
    ToolCallType,
};

/// An enum whose values have short names.
pub trait Named: Copy + Default + TryFrom<i32> + Into<i32> + Sized + 'static {
    /// All values except the unspecified one.
    const ALL: &'static [Self];

    /// The short name; empty for the unspecified value.
    fn name(self) -> &'static str;

    /// The name in the `.proto` file.
    fn full_name(self) -> &'static str;
}

macro_rules! names {
    ($($enum:ident { $($value:ident = $name:literal),+ $(,)? })+) => {$(
        impl $enum {
            /// The short name: `running` for `TASK_STATUS_RUNNING`. Empty for the unspecified value.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Unspecified => "",
                    $(Self::$value => $name,)+
                }
            }

            /// The value with a short name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$value),)+
                    _ => None,
                }
            }
        }

        impl Named for $enum {
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn name(self) -> &'static str {
                $enum::name(self)
            }

            fn full_name(self) -> &'static str {
                self.as_str_name()
            }
        }
    )+};
}

names! {
    TaskStatus { Running = "running", Paused = "paused", Completed = "completed", Failed = "failed" }
    TaskHealth { Ok = "ok", Quarantined = "quarantined", Missing = "missing", NewerFormat = "newer_format" }
    Provider { Openai = "openai", OpenaiResponses = "openai_responses", Anthropic = "anthropic", Ollama = "ollama", Lmstudio = "lmstudio" }
    Durability { Group = "group", Each = "each", Process = "process" }
    TokenCounter { Fitted = "fitted", Heuristic = "heuristic", O200k = "o200k", Cl100k = "cl100k" }
    CompressionStrategy { Summarize = "summarize", Compact = "compact", Prune = "prune", Window = "window" }
    Summarizer { Auto = "auto", Llm = "llm", Extractive = "extractive" }
    TaskComplexity { Simple = "simple", Medium = "medium", Complex = "complex" }
    CompressionPreset { Balanced = "balanced", Conservative = "conservative", Aggressive = "aggressive" }
    Role { System = "system", Developer = "developer", User = "user", Assistant = "assistant", Tool = "tool" }
    ToolCallType { Function = "function", Custom = "custom" }
    ToolCallStatus { Success = "success", Error = "error" }
    PressureStage { Normal = "normal", Warn = "warn", Prune = "prune", Aggressive = "aggressive", Emergency = "emergency" }
    LimitSource { Task = "task", Server = "server", Model = "model", Default = "default", Provider = "provider" }
    BreakerState { Closed = "closed", Open = "open" }
    InheritMode { Auto = "auto", Never = "never" }
    TaskOrder { CreatedDesc = "created_desc", CreatedAsc = "created_asc", UpdatedDesc = "updated_desc", UpdatedAsc = "updated_asc" }
    RecordKind { Message = "message", Started = "started", Lease = "lease", Config = "config", Rewrite = "rewrite", Status = "status", Usage = "usage", Statistics = "statistics", Pin = "pin", Forked = "forked", Erased = "erased" }
    CompressStage { Extracting = "extracting", Summarizing = "summarizing", Publishing = "publishing" }
    CompressSkipReason { Nothing = "nothing", WithinTarget = "within_target", NotWorthIt = "not_worth_it", Incompressible = "incompressible", TooManyParts = "too_many_parts" }
    SummaryAuthor { Extractive = "extractive", Agent = "agent", Llm = "llm" }
    RewriteKind { Summarize = "summarize", Compact = "compact", Prune = "prune", Window = "window", Trim = "trim", Undo = "undo", Rewind = "rewind", Inherit = "inherit" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message as _;

    use super::*;

    /// The enums of the protocol with their values, as the table has them; `seen` collects the enums.
    fn check<E: Named>(named: &str, seen: &mut BTreeSet<String>) {
        let prefix = format!("{named}_");
        for value in E::ALL {
            assert_eq!(value.full_name(), format!("{prefix}{}", value.name().to_uppercase()));
        }
        seen.insert(named.to_owned());
    }

    #[test]
    fn every_enum_has_short_names() {
        let mut seen = BTreeSet::new();
        macro_rules! all {
            ($($enum:ident),+ $(,)?) => {$({
                let first = $enum::ALL[0];
                assert_eq!($enum::from_name(first.name()), Some(first));
                assert_eq!(($enum::from_name(""), $enum::Unspecified.name()), (None, ""));
                let full = first.full_name();
                let prefix = full.len() - first.name().len() - 1;
                check::<$enum>(&full[..prefix], &mut seen);
            })+};
        }
        all!(
            BreakerState,
            CompressSkipReason,
            CompressStage,
            CompressionPreset,
            CompressionStrategy,
            Durability,
            InheritMode,
            LimitSource,
            PressureStage,
            Provider,
            RecordKind,
            RewriteKind,
            Role,
            SummaryAuthor,
            Summarizer,
            TaskComplexity,
            TaskHealth,
            TaskOrder,
            TaskStatus,
            TokenCounter,
            ToolCallStatus,
            ToolCallType,
        );
        let files = prost_types::FileDescriptorSet::decode(crate::FILE_DESCRIPTOR_SET).unwrap();
        let ours = files.file.iter().filter(|file| file.package() == "contextstore.v1");
        let zero = |all: &prost_types::EnumDescriptorProto| all.value[0].name().replace("_UNSPECIFIED", "");
        let mut there: BTreeSet<String> = ours.flat_map(|file| &file.enum_type).map(zero).collect();
        // Reasons have full names everywhere.
        assert!(there.remove("ERROR_REASON"));
        assert_eq!(seen, there);
    }
}
