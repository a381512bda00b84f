"""The page: `page.render` is its only entrance."""
