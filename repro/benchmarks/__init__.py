"""Speed, measured as ratios within one run: rounds are interleaved over the systems compared, medians are taken."""
