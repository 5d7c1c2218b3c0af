// SPDX-License-Identifier: GPL-3.0-or-later
//! What would be decided about a call, found out the way the pipeline decides: by its arguments,
//! its paths, the image's look at its code, and the rules. Nothing runs, and nobody is asked.

use super::assess::Look;
use super::batch::BatchContext;
use super::executor::Executor;
use super::facts::Facts;
use crate::rules::Explanation;
use crate::tool::{Arguments, Assessment, Tool, ToolFailure};

/// What would be decided.
#[derive(Debug, Clone)]
pub struct Prediction {
    pub explanation: Explanation,
    pub assessment: Assessment,
}

impl Executor {
    /// What would be decided now about a call of TOOL with ARGUMENTS.
    ///
    /// # Errors
    ///
    /// Why the call would fail before anything is decided about it.
    pub async fn predict(
        &self,
        tool: &Tool,
        arguments: &Arguments,
        batch: &BatchContext,
    ) -> Result<Prediction, ToolFailure> {
        let verdict = self.assess(tool, arguments, Look::Only, batch).await?;
        let facts = Facts::gather(0, tool, arguments, verdict.found(), &batch.place);
        Ok(Prediction {
            explanation: self.explain(&facts),
            assessment: verdict.assessment,
        })
    }
}
