//! The tools: their names, descriptions and parameters. `expand.rs` produces the answers.

use contextstore_client::{Client, Grep};
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::expand::{self, Told};
use crate::model::TaskId;

const READ: &str = "tool_output_cache";
const GREP: &str = "tool_output_cache_grep";
const PLAN: &str = "latest_plan";
const SUMMARIES: &str = "summaries";

/// Default number of lines, matches and summaries in an answer.
const LINES: u64 = 2000;
const MATCHES: u64 = 100;
const NEWEST: usize = 3;

const INSTRUCTIONS: &str = "Outputs of tools may be cut or trimmed in this conversation. A placeholder such as \
    [tool output trimmed; ref=out-…] or [tool output trimmed; seq=14] names where the whole output is kept: read it with \
    tool_output_cache, or search it with tool_output_cache_grep.";

/// The tools for one task, or for any task.
pub(super) struct Tools {
    client: Client,
    task: Option<TaskId>,
}

/// The parameter that names the task, if the command does not.
#[derive(Deserialize)]
struct Named<T> {
    task: Option<String>,
    #[serde(flatten)]
    rest: T,
}

#[derive(Deserialize)]
struct ReadArguments {
    ref_id: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
struct GrepArguments {
    pattern: String,
    #[serde(default)]
    ref_id: String,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    fixed: bool,
    #[serde(default)]
    before: u32,
    #[serde(default)]
    after: u32,
    max_matches: Option<u64>,
}

#[derive(Deserialize)]
struct PlanArguments {}

#[derive(Deserialize)]
struct SummariesArguments {
    limit: Option<usize>,
}

impl Tools {
    pub(super) fn new(client: Client, task: Option<TaskId>) -> Self {
        Self { client, task }
    }

    fn all(&self) -> Vec<Tool> {
        vec![
            self.tool(
                READ,
                "Reads the whole output of an earlier tool call by its ref, when the conversation shows only part of it or a \
                 placeholder. Answers numbered lines.",
                json!({
                    "ref_id": {"type": "string", "description": "The ref of the output, as the conversation names it: out-…, or seq=14"},
                    "offset": {"type": "integer", "minimum": 0, "description": "Lines to skip; 0 is the beginning"},
                    "limit": {"type": "integer", "minimum": 1, "description": "Most lines to read; 2000 if left out. At most 50 KiB are answered at once"},
                }),
                &["ref_id"],
            ),
            self.tool(
                GREP,
                "Searches the whole outputs of earlier tool calls for a regular expression, line by line. Answers matching \
                 lines with their numbers, which are offsets for tool_output_cache.",
                json!({
                    "pattern": {"type": "string", "description": "A regular expression, as ripgrep takes it"},
                    "ref_id": {"type": "string", "description": "The output to search; all of the task's outputs if left out"},
                    "ignore_case": {"type": "boolean", "description": "Whether upper and lower case are the same"},
                    "fixed": {"type": "boolean", "description": "Whether the pattern is plain text instead"},
                    "before": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines to show before each match"},
                    "after": {"type": "integer", "minimum": 0, "maximum": 1000, "description": "Lines to show after each match"},
                    "max_matches": {"type": "integer", "minimum": 1, "description": "Most matches; 100 if left out"},
                }),
                &["pattern"],
            ),
            self.tool(PLAN, "Answers the newest plan that was recorded for this task.", json!({}), &[]),
            self.tool(
                SUMMARIES,
                "Answers summaries of what is no longer in the conversation, newest last.",
                json!({
                    "limit": {"type": "integer", "minimum": 1, "description": "How many of the newest; 3 if left out"},
                }),
                &[],
            ),
        ]
    }

    fn tool(
        &self,
        name: &'static str,
        description: &'static str,
        mut properties: Value,
        required: &[&str],
    ) -> Tool {
        let mut required = required.to_vec();
        if self.task.is_none() {
            properties["task"] = json!({"type": "string", "description": "The id of the task: a UUID"});
            required.push("task");
        }
        let schema = JsonObject::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), properties),
            ("required".to_owned(), json!(required)),
        ]);
        Tool::new(name, description, schema).with_annotations(ToolAnnotations::default().read_only(true))
    }

    /// Runs a tool. Returns its answer or an error for the model, or `None` if there is no such tool.
    async fn answer(&self, name: &str, arguments: JsonObject) -> Option<Told> {
        Some(match name {
            READ => self.read(arguments).await,
            GREP => self.grep(arguments).await,
            PLAN => self.plan(arguments).await,
            SUMMARIES => self.summaries(arguments).await,
            _ => return None,
        })
    }

    async fn read(&self, arguments: JsonObject) -> Told {
        let (task, ReadArguments { ref_id, offset, limit }) = self.parse(arguments)?;
        expand::read(&task.outputs(), &ref_id, offset, limit.unwrap_or(LINES)).await
    }

    async fn grep(&self, arguments: JsonObject) -> Told {
        let (task, asked): (_, GrepArguments) = self.parse(arguments)?;
        let grep = Grep {
            ref_id: asked.ref_id,
            pattern: asked.pattern,
            ignore_case: asked.ignore_case,
            fixed: asked.fixed,
            before: asked.before,
            after: asked.after,
            max_matches: asked.max_matches.unwrap_or(MATCHES),
            max_line_length: 0,
        };
        expand::grep(&task.outputs(), grep).await
    }

    async fn plan(&self, arguments: JsonObject) -> Told {
        let (task, PlanArguments {}) = self.parse(arguments)?;
        expand::plan(&task).await
    }

    async fn summaries(&self, arguments: JsonObject) -> Told {
        let (task, SummariesArguments { limit }) = self.parse(arguments)?;
        expand::summaries(&task, limit.unwrap_or(NEWEST)).await
    }

    /// Returns the task of a call, for reading, and the other parameters.
    fn parse<T: DeserializeOwned>(
        &self,
        arguments: JsonObject,
    ) -> Result<(contextstore_client::Task, T), String> {
        let Named { task, rest } = serde_json::from_value::<Named<T>>(Value::Object(arguments))
            .map_err(|error| format!("The arguments are not as described: {error}."))?;
        let id = match (self.task, task) {
            (Some(id), _) => id,
            (None, Some(text)) => TaskId::parse(&text).map_err(|error| format!("task {}.", error.problem))?,
            (None, None) => return Err("The argument task is missing: the id of a task.".to_owned()),
        };
        // Reading needs no lease.
        Ok((self.client.task_under(id.to_string(), 0), rest))
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("contextstore", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let Some(told) = self.answer(&request.name, arguments).await else {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        };
        let result = match told {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            // The model reads the error and can correct its call.
            Err(words) => CallToolResult::error(vec![ContentBlock::text(words)]),
        };
        Ok(result.into())
    }
}
