//! What a person sees and answers.

pub mod ask;
pub mod follow;
mod question;
pub mod signals;
mod sub_agents;
pub mod text;
mod totals;
pub mod view;
