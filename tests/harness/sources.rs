//! What the program is made of, for tests that look at its sources; and the files of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All files below a folder, by their paths in it.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries =
            fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        for entry in entries {
            let path = entry.expect("a folder can be read to its end").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").display().to_string();
                found.insert(name, path);
            }
        }
    }
    found
}

/// What stands in each source of the program, by its path in `src`.
pub(crate) fn sources() -> BTreeMap<String, String> {
    let found = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).into_iter();
    let rust = found.filter(|(name, _)| name.ends_with(".rs"));
    rust.map(|(name, path)| (name, fs::read_to_string(path).expect("a source is text"))).collect()
}

/// The code of a source, without its comments.
pub(crate) fn code(source: &str) -> String {
    source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n")
        .collect()
}
