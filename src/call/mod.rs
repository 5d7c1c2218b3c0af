// SPDX-License-Identifier: GPL-3.0-or-later
//! The way of a call, from what a model or a user sent to its one result: looked up, validated, assessed,
//! decided, run, recorded. `pipeline` has the order; each step adds to [`Executor`] in a file of its own.

pub mod approvals;
mod assess;
mod background;
pub mod batch;
pub mod decide;
mod dispatch;
mod effects;
pub mod facts;
pub mod metrics;
mod pipeline;
mod prepared;
mod private_reads;
pub mod reach;
pub mod result;

use std::sync::{Arc, Mutex};

use crate::audit::AuditLog;
use crate::protocol::Emacs;
use crate::protocol::{Event, Lisp};
use crate::rules::RuleBook;
use crate::tool::work::{AfterEdit, Echo, NextCalls, Proposal, Trail, WorkContext};
use approvals::Approvals;
use batch::{BatchContext, EvalPolicy, PlanMode};
use metrics::Metrics;

/// What all calls share.
#[derive(Clone)]
pub struct Executor {
    pub approvals: Arc<Approvals>,
    pub emacs: Arc<dyn Emacs>,
    pub audit: Arc<AuditLog>,
    pub metrics: Arc<Metrics>,
    pub rules: Arc<Mutex<RuleBook>>,
}

impl Executor {
    /// What the work of a call here may reach.
    #[must_use]
    pub fn context(&self, batch: &BatchContext) -> WorkContext {
        WorkContext {
            session: batch.session,
            call: None,
            lisp: Lisp::Users,
            emacs: Arc::clone(&self.emacs),
            workspace: Arc::clone(&batch.workspace),
            cancel: batch.cancel.clone(),
            judged: Arc::default(),
            program: None,
            reviewed: None,
            proposal: Proposal::New,
            next: NextCalls::default(),
            after_edit: match (batch.eval_policy, batch.plan) {
                (EvalPolicy::ReadOnly, _) => AfterEdit::Leave,
                (_, PlanMode::Off) => batch.after_edit,
                (_, PlanMode::Look | PlanMode::Evaluate | PlanMode::Research) => AfterEdit::Leave,
            },
            echo: Echo::default(),
            trail: Trail::default(),
            tools: Arc::clone(&batch.tools),
            offer: Arc::clone(&batch.offer),
            past: Arc::clone(&batch.past),
            begun: batch.begun.clone(),
        }
    }

    /// Tells Emacs of EVENT, if anybody there wants to know.
    fn tell(&self, batch: &BatchContext, event: Event) {
        if batch.watcher.wants(&event) {
            self.emacs.emit(event);
        }
    }
}
