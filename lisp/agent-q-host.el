;;; agent-q-host.el --- What the core asks of Emacs for a tool  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A tool may need the Lisp image, which only Emacs is connected to, or Emacs itself:
;; its buffers, and what it saw.  The core asks by an event; here it is answered.

;;; Code:

(require 'agent-q-buffers)
(require 'agent-q-changes)
(require 'agent-q-compile)
(require 'agent-q-debugger)
(require 'agent-q-definitions)
(require 'agent-q-edit)
(require 'agent-q-events)
(require 'agent-q-history)
(require 'agent-q-image)
(require 'agent-q-image-connection)
(require 'agent-q-image-threads)
(require 'agent-q-operations)
(require 'agent-q-project)
(require 'agent-q-render)
(require 'agent-q-source)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;###autoload
(defun agent-q-host-answer (event connection owner)
  "Carry out the request in EVENT to Emacs or the image behind CONNECTION, if any.
OWNER is the buffer of the chat that asks, if any."
  (pcase (plist-get event :type)
    (:emacs-call (agent-q-operations-run event connection owner))
    (:image-call (agent-q-host--image-call event connection owner))))

(defun agent-q-host--image-call (event connection owner)
  "Do what EVENT asks of the image behind CONNECTION, which may be nil.
OWNER is the buffer of the chat that asks, if any."
  (let ((request (plist-get event :request)))
    (cond
     ((null connection) (agent-q-core-resolve request "no-connection" nil))
     ((agent-q-host--met-later-p event connection)
      (agent-q-core-resolve request "done" "(:outcome :returned :value (:watched t))"))
     (t
      (agent-q-image-call connection request
                          (plist-get event :operation)
                          (plist-get event :arguments)
                          (plist-get event :seconds)
                          (lambda (status payload)
                            (agent-q-host--note-unguarded connection owner payload)
                            (agent-q-events-resolve
                             request status
                             (if (string-prefix-p "(:outcome " (or payload ""))
                                 (agent-q-debugger-with-opened
                                  connection (plist-get event :operation) owner
                                  (agent-q-image-with-name connection payload))
                               payload)))
                          owner)))))

(defun agent-q-host--met-later-p (event connection)
  "Return non-nil when code of EVENT is asked about in the image of CONNECTION.
Nothing has to be known about it before: that saves a trip to the image for
each call."
  (and (equal "assess-form" (plist-get event :operation))
       (agent-q-image-threads-watched-p connection)
       (null (plist-get (car (read-from-string (plist-get event :arguments))) :before))))

(defun agent-q-host--note-unguarded (connection owner payload)
  "Note what can't be guarded in the image of CONNECTION, by its reply PAYLOAD.
OWNER is the chat that asked, and is told once."
  (let* ((process (agent-q-image-connection-process connection))
         (names (and payload (string-search " :unguarded (" payload)
                     (plist-get (ignore-errors (car (read-from-string payload))) :unguarded)))
         (text (string-join names ", ")))
    (when (and names (not (equal names (process-get process 'agent-q-unguarded))))
      (process-put process 'agent-q-unguarded names)
      (when (buffer-live-p owner)
        (with-current-buffer owner
          (agent-q-render-notice
           (format "agent-q can't stop calls of %s in %s.  Code there is looked at before it runs."
                   text (agent-q-image-label connection))
           'agent-q-attention))))))

;;;###autoload
(defun agent-q-host-answer-outside (event)
  "Carry out the request in EVENT, which belongs to a call outside all chats."
  (agent-q-host-answer event (agent-q-image-default-connection) nil))

(provide 'agent-q-host)
;;; agent-q-host.el ends here
