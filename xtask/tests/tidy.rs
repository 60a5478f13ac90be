//! Runs the checks of the tree; each failure lists every place that breaks the rule.

use xtask::{Tree, TreeError};

fn assert_clean(check: fn(&Tree) -> Vec<String>) -> Result<(), TreeError> {
    let complaints = check(&Tree::read()?);
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
    Ok(())
}

#[test]
fn rust_files_open_with_a_header() -> Result<(), TreeError> {
    assert_clean(xtask::file_headers)
}

#[test]
fn production_files_fit_in_a_head() -> Result<(), TreeError> {
    assert_clean(xtask::file_sizes)
}

#[test]
fn nothing_is_left_for_later() -> Result<(), TreeError> {
    assert_clean(xtask::leftovers)
}

#[test]
fn every_source_file_is_a_module() -> Result<(), TreeError> {
    assert_clean(xtask::orphans)
}

#[test]
fn time_threads_and_chance_are_handed_in() -> Result<(), TreeError> {
    assert_clean(xtask::taken)
}

#[test]
fn errors_are_types() -> Result<(), TreeError> {
    assert_clean(xtask::untyped)
}

#[test]
fn parts_of_the_cluster_know_those_below_them() -> Result<(), TreeError> {
    assert_clean(xtask::upward)
}

#[test]
fn no_more_files_need_each_other() -> Result<(), TreeError> {
    assert_clean(xtask::circles)
}

#[test]
fn documents_are_there() -> Result<(), TreeError> {
    assert_clean(xtask::documents_exist)
}

#[test]
fn the_code_map_names_every_crate() -> Result<(), TreeError> {
    assert_clean(xtask::crates_in_architecture)
}

#[test]
fn documents_have_one_title() -> Result<(), TreeError> {
    assert_clean(xtask::titles)
}

#[test]
fn the_tree_speaks_of_itself_alone() -> Result<(), TreeError> {
    assert_clean(xtask::private_words)
}

#[test]
fn the_library_built_apart_fits_the_workspace() -> Result<(), TreeError> {
    assert_clean(xtask::rocksdb_agreement)
}

#[test]
fn dependencies_point_inwards() -> Result<(), TreeError> {
    let complaints = xtask::forbidden_edges(&Tree::read()?)?;
    assert!(complaints.is_empty(), "\n  {}\n", complaints.join("\n  "));
    Ok(())
}
