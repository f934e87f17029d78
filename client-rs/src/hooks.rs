//! What an agent wants done before its task is completed or stopped.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;

use crate::{Error, Task};

/// What a hook answers.
pub type HookResult = Result<(), Box<dyn StdError + Send + Sync>>;

/// What is about to happen to a task.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ending {
    /// The task.
    pub task: Task,
    /// What it will be: `completed`, `paused` or `failed`.
    pub status: &'static str,
    /// What is to be remembered of it; empty if the server is to make that.
    pub final_summary: String,
    /// Why it failed.
    pub error_message: String,
}

/// What a hook that fails does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HookErrors {
    /// It is logged and kept in [`Task::hook_failures`], the next one is called, and the task ends all the same.
    #[default]
    Continue,
    /// The call fails with [`Error::Hook`], and the task goes on.
    Stop,
}

/// A hook that failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookFailure {
    /// Its name.
    pub name: String,
    /// What it said.
    pub error: Arc<dyn StdError + Send + Sync>,
}

type Hook = Arc<dyn Fn(Ending) -> BoxFuture<'static, HookResult> + Send + Sync>;

/// The hooks of one task.
#[derive(Default)]
pub(crate) struct Hooks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    completing: Vec<(String, Hook)>,
    stopping: Vec<(String, Hook)>,
    errors: HookErrors,
    failures: Vec<HookFailure>,
}

impl Hooks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let names = |hooks: &[(String, Hook)]| hooks.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        f.debug_struct("Hooks")
            .field("completing", &names(&state.completing))
            .field("stopping", &names(&state.stopping))
            .finish_non_exhaustive()
    }
}

fn set(hooks: &mut Vec<(String, Hook)>, name: String, hook: Hook) {
    match hooks.iter_mut().find(|(known, _)| *known == name) {
        Some((_, old)) => *old = hook,
        None => hooks.push((name, hook)),
    }
}

impl Task {
    /// Has a hook called before the task is completed, behind those that were registered before it; one of the same name
    /// takes the place of the first. It is called by [`Task::complete`] of this handle and its clones, and again if that
    /// is called again.
    ///
    /// ```no_run
    /// # fn example(task: contextstore_client::Task) {
    /// task.on_complete("say so", |ending| async move {
    ///     println!("{} is done", ending.task.uuid());
    ///     Ok(())
    /// });
    /// # }
    /// ```
    pub fn on_complete<F, R>(&self, name: impl Into<String>, hook: F)
    where
        F: Fn(Ending) -> R + Send + Sync + 'static,
        R: Future<Output = HookResult> + Send + 'static,
    {
        set(&mut self.hooks().lock().completing, name.into(), boxed(hook));
    }

    /// The same before the task is paused or failed.
    pub fn on_stop<F, R>(&self, name: impl Into<String>, hook: F)
    where
        F: Fn(Ending) -> R + Send + Sync + 'static,
        R: Future<Output = HookResult> + Send + 'static,
    {
        set(&mut self.hooks().lock().stopping, name.into(), boxed(hook));
    }

    /// Says what a hook that fails does.
    pub fn set_hook_errors(&self, errors: HookErrors) {
        self.hooks().lock().errors = errors;
    }

    /// The hooks that failed when the task was last completed or stopped.
    pub fn hook_failures(&self) -> Vec<HookFailure> {
        self.hooks().lock().failures.clone()
    }

    /// Calls the hooks of what is about to happen.
    pub(crate) async fn before(
        &self,
        status: &'static str,
        final_summary: &str,
        error_message: &str,
    ) -> Result<(), Error> {
        self.flush().await?;
        let (hooks, errors) = {
            let mut state = self.hooks().lock();
            state.failures.clear();
            let hooks = if status == "completed" { &state.completing } else { &state.stopping };
            (hooks.clone(), state.errors)
        };
        for (name, hook) in hooks {
            let ending = Ending {
                task: self.clone(),
                status,
                final_summary: final_summary.to_owned(),
                error_message: error_message.to_owned(),
            };
            let Err(error) = hook(ending).await else { continue };
            let error: Arc<dyn StdError + Send + Sync> = error.into();
            tracing::error!(task = self.uuid(), hook = name, status, %error, "a hook failed");
            self.hooks().lock().failures.push(HookFailure { name: name.clone(), error: Arc::clone(&error) });
            if errors == HookErrors::Stop {
                return Err(Error::Hook { name, status, error });
            }
        }
        Ok(())
    }
}

fn boxed<F, R>(hook: F) -> Hook
where
    F: Fn(Ending) -> R + Send + Sync + 'static,
    R: Future<Output = HookResult> + Send + 'static,
{
    Arc::new(move |ending| Box::pin(hook(ending)))
}
