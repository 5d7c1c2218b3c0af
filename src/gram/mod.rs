// SPDX-License-Identifier: GPL-3.0-or-later
//! Gram notation: reading it, and what tools need of it — type signatures and their JSON schemas,
//! tool specifications, agents, and libraries that specifications are bound to. No I/O.

mod agent;
mod lexer;
mod library;
pub mod parameter;
mod parser;
mod print;
mod schema;
mod signature;
mod specification;
pub mod syntax;
mod types;

pub use agent::{AgentSpecification, ModelReference, agent_from_gram};
pub use library::{BindError, Difference, LibraryError, LibraryTool, ToolLibrary};
pub use parser::{MAX_NESTING, parse};
pub use schema::type_signature_to_json_schema;
pub use signature::parse_type_signature;
pub use specification::{SpecificationError, ToolSpecification};
pub use syntax::GramError;
pub use types::{
    SignatureParameter, SignaturePresence, SignatureResult, Spelling, TypeSignature, ValueType,
};
