//! `tasks.db`: the catalog, a view of the tasks that can be deleted and rebuilt.
