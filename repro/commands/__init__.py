"""What each verb of the command line does: joins the rooms below, prints, and returns an exit code."""
