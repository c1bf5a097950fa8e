"""Reports: saved records become figures and pages; the only importer of matplotlib."""
