//! How a program that is missing comes to a machine.

use crate::contender::CONTENDERS;
use crate::segments::METHODS;

/// What every system has is not among what the script installs.
const EVERYWHERE: &str = "coreutils";
/// For the SSH server that some ways to archive need.
const SSH_SERVER: &str = "openssh-server";

/// The package, and what installs it for those who have the source.
pub(crate) fn how_to_install(package: &str) -> String {
    match package {
        package if package.starts_with("postgresql") => format!(
            "package {package}; or name what scripts/fetch-postgres in walzip's source fetches \
             with --pg-bin"
        ),
        package if is_installed_by_script(package) => {
            format!("package {package}; scripts/bench-tools in walzip's source installs it")
        }
        package => format!("package {package}"),
    }
}

fn is_installed_by_script(package: &str) -> bool {
    let contenders = CONTENDERS.iter().filter(|contender| !contender.is_walzip());
    let methods = METHODS.iter().filter(|method| !method.is_walzip());
    let mut packages = contenders
        .map(|contender| contender.package)
        .chain(methods.map(|method| method.package))
        .chain([SSH_SERVER])
        .filter(|package| *package != EVERYWHERE);
    packages.any(|of_script| of_script == package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_source_is_told_of_the_script() {
        let script = "scripts/bench-tools in walzip's source";
        for package in ["lrzip", "rsync", "openssh-server"] {
            assert!(how_to_install(package).contains(script), "{package}");
        }
        assert_eq!(how_to_install("coreutils"), "package coreutils");
        let server = how_to_install("postgresql");
        assert!(server.contains("scripts/fetch-postgres") && server.contains("--pg-bin"));
    }
}
