//! How COMMAND becomes a program, and how a JSON value gets in and another one out.
//!
//! [`table`] says which backends there are. [`load`] reads and checks what is handed in before anything of
//! the run exists; [`launch`] puts it where the command finds it, and reads what the command leaves. Nothing
//! is started here, and nothing is shown.

mod folder;
pub mod launch;
pub mod load;
pub mod table;
