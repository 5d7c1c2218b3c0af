;;; agent-q-image-end.el --- How calls into the image end, in words  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the image can't say of the end of a call: why it was stopped and after
;; how long, and why its client gave it up.

;;; Code:

(require 'agent-q-image-calls)

(defun agent-q-image-end-stopped-reply (call reply)
  "Return REPLY to CALL, which was stopped, with why and after how long."
  (concat "(:outcome :cancelled"
          (pcase (agent-q-image-call-stopping call)
            ("timed-out" (format " :because \"timed out after %g s"
                                 (agent-q-image-call-seconds call)))
            ("done" (format " :because \"cancelled after %.1f s"
                            (- (float-time) (agent-q-image-call-started call)))))
          (and (agent-q-image-call-stopping call)
               (if (string-prefix-p "(:outcome :cancelled :unclean " reply)
                   "; its cleanup didn't end and was left out\""
                 "\""))
          (substring reply (length "(:outcome :cancelled"))))

(defun agent-q-image-end-abort-reason (condition)
  "Return why the client aborted a call, given its word for the CONDITION."
  ;; The clients print no condition as NIL.
  (if (member condition '(nil "NIL"))
      "its thread ended, either by itself or from outside."
    (format "%s" condition)))

(provide 'agent-q-image-end)
;;; agent-q-image-end.el ends here
