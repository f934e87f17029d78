//! One question to a model. (Comes with its helper.)

use std::sync::Arc;

use super::material::Material;
pub(crate) use super::prompt::Purpose;
use crate::context::Policy;
use crate::llm::{Gateway, Usage};
use crate::model::{Provider, TaskId};
use crate::store::Store;

pub(crate) struct Question<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) material: &'a Material,
    pub(crate) previous: Option<&'a str>,
    pub(crate) budget: u64,
    pub(crate) refs: &'a [String],
    pub(crate) policy: &'a Policy,
    pub(crate) provider: Provider,
    pub(crate) model: &'a str,
    pub(crate) refused: Option<&'a str>,
}

pub(crate) struct Reply {
    pub(crate) summary: String,
    pub(crate) retain: Option<String>,
    pub(crate) keep: Vec<u64>,
    pub(crate) sections: Option<serde_json::Value>,
    pub(crate) usage: Option<Usage>,
}

pub(crate) async fn ask(
    _: &Arc<Gateway>,
    _: &Store,
    _: TaskId,
    _: &Question<'_>,
    _: &(dyn Fn(u64) + Sync),
) -> Result<Reply, String> {
    Err("not yet".to_owned())
}
