//! Enums of the wire ⇄ enums of the model, one line each.

use contextstore_proto::{Named, v1 as pb};

use super::convert::Parsed;
use crate::context::{Complexity, LimitSource, Preset, Stage, Strategy, Summarizer};
use crate::model::{
    Durability, Health, InvalidField, Provider, Role, Status, TaskOrder, TokenCounter, ToolStatus,
};

/// An enum of the model that the wire has too.
pub(super) trait OnWire: Sized {
    /// The enum of the wire.
    type Wire: Named;

    /// The value of the wire.
    fn to_wire(self) -> Self::Wire;

    /// The value of the model; none for the unspecified one.
    fn from_wire(wire: Self::Wire) -> Option<Self>;
}

macro_rules! on_wire {
    ($($model:ident = $wire:ident { $($ours:ident = $theirs:ident),+ $(,)? })+) => {$(
        impl OnWire for $model {
            type Wire = pb::$wire;

            fn to_wire(self) -> pb::$wire {
                match self {
                    $(Self::$ours => pb::$wire::$theirs,)+
                }
            }

            fn from_wire(wire: pb::$wire) -> Option<Self> {
                match wire {
                    pb::$wire::Unspecified => None,
                    $(pb::$wire::$theirs => Some(Self::$ours),)+
                }
            }
        }
    )+};
}

on_wire! {
    Status = TaskStatus { Running = Running, Paused = Paused, Completed = Completed, Failed = Failed }
    Health = TaskHealth {
        Ok = Ok, Quarantined = Quarantined, Missing = Missing, NewerFormat = NewerFormat,
    }
    Provider = Provider {
        OpenAi = Openai, OpenAiResponses = OpenaiResponses, Anthropic = Anthropic, Ollama = Ollama,
        LmStudio = Lmstudio,
    }
    Durability = Durability { Group = Group, Each = Each, Process = Process }
    TokenCounter = TokenCounter { Fitted = Fitted, Heuristic = Heuristic, O200k = O200k, Cl100k = Cl100k }
    Strategy = CompressionStrategy {
        Summarize = Summarize, Compact = Compact, Prune = Prune, Window = Window,
    }
    Summarizer = Summarizer { Auto = Auto, Llm = Llm, Extractive = Extractive }
    Complexity = TaskComplexity { Simple = Simple, Medium = Medium, Complex = Complex }
    Preset = CompressionPreset {
        Balanced = Balanced, Conservative = Conservative, Aggressive = Aggressive,
    }
    Role = Role { System = System, Developer = Developer, User = User, Assistant = Assistant, Tool = Tool }
    ToolStatus = ToolCallStatus { Success = Success, Error = Error }
    Stage = PressureStage {
        Normal = Normal, Warn = Warn, Prune = Prune, Aggressive = Aggressive, Emergency = Emergency,
    }
    LimitSource = LimitSource {
        Task = Task, Server = Server, Model = Model, Default = Default, Provider = Provider,
    }
    TaskOrder = TaskOrder {
        CreatedDescending = CreatedDesc, CreatedAscending = CreatedAsc, UpdatedDescending = UpdatedDesc,
        UpdatedAscending = UpdatedAsc,
    }
}

/// A value of the model as the number that a response carries.
pub(super) fn number<T: OnWire>(value: T) -> i32 {
    value.to_wire().into()
}

/// The enum of a field of a request. An unknown number is refused.
pub(super) fn wire<E: Named>(field: &'static str, number: i32) -> Parsed<E> {
    E::try_from(number).map_err(|_| wrong::<E>(field, &format!("is {number}")))
}

/// The value of a field of a request; none if it is unspecified.
pub(super) fn some<T: OnWire>(field: &'static str, number: i32) -> Parsed<Option<T>> {
    Ok(T::from_wire(wire(field, number)?))
}

/// The value of a field of a request, which must be specified.
pub(super) fn required<T: OnWire>(field: &'static str, number: i32) -> Parsed<T> {
    some(field, number)?.ok_or_else(|| wrong::<T::Wire>(field, "is missing"))
}

/// An error that names the values that are allowed.
pub(super) fn wrong<E: Named>(field: &'static str, problem: &str) -> InvalidField {
    let allowed: Vec<_> = E::ALL.iter().map(|value| value.full_name()).collect();
    InvalidField::new(field, format!("{problem}; allowed are {}", allowed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_is_refused_with_what_is_allowed() {
        assert_eq!(some::<Durability>("durability", 0), Ok(None));
        assert_eq!(some("durability", 2), Ok(Some(Durability::Each)));
        let refused = some::<Durability>("durability", 4).unwrap_err();
        assert_eq!(refused.field, "durability");
        assert_eq!(
            refused.problem,
            "is 4; allowed are DURABILITY_GROUP, DURABILITY_EACH, DURABILITY_PROCESS"
        );
        assert_eq!(required::<Role>("role", 0).unwrap_err().problem.split(';').next(), Some("is missing"));
    }

    #[test]
    fn the_model_and_the_wire_use_the_same_short_names() {
        macro_rules! same {
            ($($values:expr),+ $(,)?) => {$(
                for value in $values {
                    assert_eq!(value.as_str().to_lowercase(), value.to_wire().name());
                }
            )+};
        }
        same!(
            Status::ALL,
            Health::ALL,
            Provider::ALL,
            TokenCounter::ALL,
            Strategy::ALL,
            Summarizer::ALL,
            Complexity::ALL,
            Preset::ALL,
            Role::ALL,
        );
    }
}
