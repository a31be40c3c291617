"""What imgproc does, as async functions over ports. Decisions are pure functions; here they are carried out."""
