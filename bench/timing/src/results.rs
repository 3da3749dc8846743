//! Prints the table and writes the JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::{Value, json};

use crate::Measured;

pub fn table(results: &[Measured]) -> String {
    let mut text = format!("{:<30} {:<20} {:>9} {:>9} {:>9}\n", "case", "library", "median ns", "min", "max");
    let mut last_case = "";
    for result in results {
        let min = result.ns_per_op.iter().copied().fold(f64::INFINITY, f64::min);
        let max = result.ns_per_op.iter().copied().fold(0.0, f64::max);
        let case = if result.case == last_case { "" } else { result.case };
        let _ = writeln!(text, "{case:<30} {:<20} {:>9.2} {min:>9.2} {max:>9.2}", result.library, result.median);
        last_case = result.case;
    }
    text
}

/// All samples as a JSON object, to which a program can add fields.
pub fn json(unit: &str, versions: &BTreeMap<String, String>, results: &[Measured], rounds: usize) -> Value {
    json!({
        "versions": versions,
        "unit": unit,
        "rounds": rounds,
        "results": results.iter().map(|result| json!({
            "case": result.case,
            "library": result.library,
            "ns_per_op": result.ns_per_op.iter().map(|ns| rounded(*ns)).collect::<Vec<_>>(),
            "median": rounded(result.median),
        })).collect::<Vec<_>>(),
    })
}

/// Rounds to three decimals.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Writes `json` to `path`, and creates its folder if necessary.
///
/// # Errors
/// Errors of the file system.
pub fn write(path: &Path, json: &Value) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, format!("{json:#}\n"))
}

/// Returns the versions of these packages in a lock file.
///
/// # Panics
/// The lock file does not contain one of them.
pub fn versions(lock_file: &str, packages: &[&str]) -> BTreeMap<String, String> {
    let locked: BTreeMap<&str, &str> = lock_file
        .split("[[package]]")
        .filter_map(|package| {
            let field = |name: &str| {
                package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
            };
            Some((field("name")?, field("version")?))
        })
        .collect();
    let version = |package: &str| locked.get(package).unwrap_or_else(|| panic!("{package} is not in the lock file"));
    packages.iter().map(|&package| (package.to_owned(), (*version(package)).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    const LOCK_FILE: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\n";

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let versions = super::versions(LOCK_FILE, &["b"]);
        assert_eq!(versions.into_iter().collect::<Vec<_>>(), [("b".to_owned(), "0.1.0".to_owned())]);
    }

    #[test]
    #[should_panic(expected = "c is not in the lock file")]
    fn a_missing_package_is_reported() {
        super::versions(LOCK_FILE, &["c"]);
    }
}
