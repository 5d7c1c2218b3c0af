// SPDX-License-Identifier: GPL-3.0-or-later
//! What would be decided about a call, found out the way the pipeline decides: by its arguments,
//! its paths, the image's look at its code, and the rules. Nothing runs, and nobody is asked.

use super::assess::Look;
use super::circumstances::Circumstances;
use super::executor::Executor;
use super::{Arguments, Assessment, Tool, ToolFailure};
use crate::call::facts::Facts;
use crate::rules::Explanation;

/// What would be decided.
#[derive(Debug, Clone)]
pub struct Foretold {
    pub explanation: Explanation,
    pub assessment: Assessment,
}

impl Executor {
    /// What would be decided now about a call of TOOL with ARGUMENTS.
    ///
    /// # Errors
    ///
    /// Why the call would fail before anything is decided about it.
    pub async fn foretell(
        &self,
        tool: &Tool,
        arguments: &Arguments,
        circumstances: &Circumstances,
    ) -> Result<Foretold, ToolFailure> {
        let verdict = self
            .assess(tool, arguments, Look::First, circumstances)
            .await?;
        let found = (&verdict.assessment, &verdict.reached);
        let facts = Facts::gather(0, tool, arguments, found, &circumstances.place);
        Ok(Foretold {
            explanation: self.explain(&facts),
            assessment: verdict.assessment,
        })
    }
}
