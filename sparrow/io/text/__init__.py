"""Line-based text formats."""
