"""What follows when a broker comes, dies, restarts or asks to shut down?"""
