"""The page: `page.write_report` is its only entrance."""
