"""Looking at values inside of transforms."""
