"""Questions over many tables: what the finders, the descriptions and the query tools share."""
