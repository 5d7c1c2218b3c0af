// SPDX-License-Identifier: GPL-3.0-or-later
//! Code among the arguments of a call, and code that they only name, such as a definition of a file.
//! That is found before it is assessed, and what was assessed is what runs, whatever becomes of the
//! file meanwhile.

use futures_util::future::BoxFuture;
use lexpr::Value;

use super::work::WorkContext;
use super::{Arguments, ToolFailure};

/// Arguments of a tool that are code for the Lisp image. Such code is assessed in the image, with
/// the macros that it has, before anybody decides whether the call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The parameters with code in them; `package` says in which package it is read. None where a
    /// call only names code that it runs, such as a system.
    pub parameters: &'static [&'static str],
    pub treatment: Treatment,
}

/// What a tool does with code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Reads and runs a form, then the next: what can't be read before the forms above it have run
    /// is assessed by the operation itself, just before it runs.
    RunInSteps,
    /// Runs it all at once.
    RunAtOnce,
    /// Only expands its macros.
    Expand,
}

/// What a call runs in the image in place of what its tool says.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    pub operation: &'static str,
    /// The text that runs; none where the image finds it by itself.
    pub code: Option<String>,
    /// The arguments of the operation.
    pub arguments: Value,
    /// What the answer is to say of the code.
    pub note: Option<String>,
}

/// Finds the code that a call's arguments name. Runs none of it.
pub type FindUnit = fn(Arguments, WorkContext) -> BoxFuture<'static, Result<Unit, ToolFailure>>;
