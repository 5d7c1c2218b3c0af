;;; agent-q-call-events.el --- What happens to tool calls  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The events of the core about a call: it is proposed, waits, is decided, runs, is
;; over.  Each changes the call and its item in the log of the chat.

;;; Code:

(require 'agent-q)
(require 'agent-q-approval)
(require 'agent-q-approval-gate)
(require 'agent-q-attention)
(require 'agent-q-call)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-module)
(require 'agent-q-render)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Calls in the image while they run

;; What a call prints is shown while it runs, and how far it is.  The image is asked for both soon
;; after the call began, often while they change and else with the clock of the turn, one question for
;; each call at a time, and answers beside the call.  A key shows where the call is; nothing is stopped for that.

(defconst agent-q-call-events--live-operations
  '("eval-form" "compile-form" "compile-file" "load-system" "run-tests" "eval-in-frame"
    "compare-forms" "profile-form"
    "invoke-restart" "restart-frame" "return-from-frame" "call-tool")
  "The operations that run code.")

(defconst agent-q-call-events--live-seconds 5
  "Seconds that the image may take to answer.")

(defconst agent-q-call-events--live-pace 0.2
  "Seconds until the image is asked again what a call that prints has printed.")

(defconst agent-q-call-events--live-width 60
  "Most columns that are shown of how far a call is.")

(defconst agent-q-call-events--live-frames 12
  "How many functions a model is told that a call is in.")

(defvar-local agent-q-call-events--live-timer nil
  "The timer that asks the image soon, or nil.")

(defvar-local agent-q-call-events--live-asked nil
  "The calls of this chat of which an image is asked now.")

(defun agent-q-call-events--live-image-call (key)
  "Return the image call behind this chat's tool call KEY, or nil.
Code that the core knows under no key counts where no other is known."
  (let (found unknown)
    (maphash (lambda (_ call)
               (when (and (eq (agent-q-connection-call-owner call) (current-buffer))
                          (agent-q-connection-call-id call)
                          (member (agent-q-connection-call-operation call)
                                  agent-q-call-events--live-operations)
                          (agent-q-connection-ask (agent-q-connection-call-connection call)
                                                  :threads-p))
                 (cond ((null (agent-q-connection-call-key call)) (setq unknown call))
                       ((eql key (agent-q-connection-call-key call)) (setq found call)))))
             agent-q-connection-call-pending)
    (or found unknown)))

(defun agent-q-call-events--live-query (running operation function)
  "Ask the image of RUNNING, an image call, for OPERATION of it.
FUNCTION gets the value, or nil, and the whole reply."
  (agent-q-image-query
   (agent-q-connection-call-connection running) operation
   (list :call (agent-q-connection-call-id running))
   (lambda (reply &rest _)
     (funcall function
              (pcase reply (`(:outcome :returned :value ,value . ,_) value))
              reply))
   agent-q-call-events--live-seconds))

;;;;; Output

(defun agent-q-call-events-live-tick ()
  "Ask the image for what each running call of this chat has printed.
The answers come later; while one is awaited, there is no other question."
  (dolist (call (agent-q-call-running))
    (let ((running (and (not (agent-q-call-effect-p call))
                        (not (memq call agent-q-call-events--live-asked))
                        (agent-q-call-events--live-image-call (agent-q-call-key call))))
          (chat (current-buffer)))
      (cond
       ((null running))
       ;; It waits for the Common Lisp half.
       ((null (agent-q-connection-call-continuation running))
        (when (agent-q-call-events--progress-note call "preparing the image")
          (agent-q-call-events--live-draw call)))
       (t
        (push call agent-q-call-events--live-asked)
        (agent-q-call-events--live-query
         running "call-output"
         (lambda (value _reply)
           (when (buffer-live-p chat)
             (with-current-buffer chat
               (setq agent-q-call-events--live-asked (delq call agent-q-call-events--live-asked))
               (agent-q-call-events--live-take call value))))))))))

(defun agent-q-call-events-live-soon ()
  "Ask the image soon what each running call of this chat has printed."
  (unless agent-q-call-events--live-timer
    (setq agent-q-call-events--live-timer
          (run-at-time agent-q-call-events--live-pace nil #'agent-q-call-events--live-ask-in
                       (current-buffer)))))

(defun agent-q-call-events--live-ask-in (chat)
  "Ask the image what each running call of CHAT has printed."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-call-events--live-timer nil)
      (agent-q-call-events-live-tick))))

(defun agent-q-call-events--live-take (call value)
  "Show VALUE, what CALL has printed and how far it is according to the image.
While that changes, the next question comes soon."
  (let ((text (plist-get value :text))
        (printed (plist-get value :printed)))
    (when (and text printed (eq (agent-q-call-state call) 'running))
      (let ((news (agent-q-call-events--progress-note call (plist-get value :stage))))
        (when (and (> printed 0) (not (eql printed (nth 1 (agent-q-call-output call)))))
          (setf (agent-q-call-output call) (list text printed (current-time))
                news t))
        (when news
          (agent-q-call-events--live-draw call)
          (agent-q-call-events-live-soon))))))

(defun agent-q-call-events--live-draw (call)
  "Show what is known of CALL now."
  (agent-q-render-update-item call)
  (agent-q-chat-view-header-update))

(defun agent-q-call-events--progress-note (call text)
  "Note TEXT as how far CALL is; nil or an empty one when that isn't known.
Return non-nil if that is new."
  (let ((line (and text (not (string-empty-p text))
                   (agent-q-text-visible-line text agent-q-call-events--live-width))))
    (unless (equal line (car (agent-q-call-progress call)))
      (setf (agent-q-call-progress call) (and line (cons line (current-time))))
      t)))

(defun agent-q-call-events-progress (event)
  "Show how far the call of EVENT is, and what its program has printed."
  (let ((call (gethash (plist-get event :call) agent-q-call-table))
        (output (plist-get event :output)))
    (when (and call (eq (agent-q-call-state call) 'running))
      (let ((news (agent-q-call-events--progress-note call (plist-get event :text))))
        (when output
          (setf (agent-q-call-output call) (append output (list (current-time)))))
        (when (or news output)
          (agent-q-call-events--live-draw call))))))

(agent-q-events-operation-define "call-look" (operation call)
  "Return what the chat's CALL, a key, has printed so far, and where it is."
  (with-current-buffer (agent-q-events-operation-call-owner operation)
    (let ((running (agent-q-call-events--live-image-call call))
          (known (gethash call agent-q-call-table)))
      (if (null running)
          ;; A program's output has come by itself.
          (agent-q-call-events--live-told
           (list :text (car (and known (agent-q-call-output known)))) nil)
        (agent-q-call-events--live-query
         running "call-output"
         (lambda (output _reply)
           (agent-q-call-events--live-query
            running "call-backtrace"
            (lambda (place _reply)
              (agent-q-events-operation-end
               operation "done"
               (agent-q-call-events--live-told output place))))))
        nil))))

(defun agent-q-call-events--live-told (said place)
  "Return for a model what the image SAID of a call, which is in PLACE.
SAID is what it has printed, and how far it is; PLACE is a property list of
functions and a file that is compiled or loaded."
  (let* ((stage (plist-get said :stage))
         (output (plist-get said :text))
         (path (plist-get place :file))
         (file (and path
                    (not (and stage (string-search (file-name-nondirectory path) stage)))
                    path))
         (frames (plist-get place :frames)))
    (string-join
     (delq nil (list (and stage (concat "So far: " stage))
                     (and output (not (string-empty-p output))
                          (concat "Output so far:\n" (string-trim-right output)))
                     (and file (format "It compiles or loads %s." file))
                     (and frames
                          (concat "It is in, innermost first: "
                                  (string-join (seq-take frames agent-q-call-events--live-frames)
                                               " < ")))))
     "\n")))

;;;;; Where it is

(defvar agent-q-call-events-live-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map agent-q-render-item-map)
    (define-key map "b" #'agent-q-call-events-live-backtrace)
    map)
  "Keymap on a call that runs.")

(defun agent-q-call-events-live-backtrace ()
  "Show where the code of the call here is in the image, without stopping it.
Elsewhere the first running call is meant."
  (interactive nil agent-q-chat-mode)
  (let* ((item (agent-q-render-item-at (point)))
         (call (if (and (agent-q-call-p item) (eq (agent-q-call-state item) 'running))
                   item
                 (car (seq-remove #'agent-q-call-effect-p (agent-q-call-running)))))
         (running (or (and call (agent-q-call-events--live-image-call (agent-q-call-key call)))
                      (user-error "No code of this chat runs in the image")))
         (words (agent-q-call-text-line call))
         (asked (selected-window)))
    (message "Asking the image...")
    (agent-q-call-events--live-query
     running "call-backtrace"
     (lambda (_value reply) (agent-q-call-events--live-show words reply asked)))))

(defun agent-q-call-events--live-show (words reply asked)
  "Show where the call described by WORDS is, by REPLY of the image.
It was asked for in the window ASKED."
  (pcase reply
    (`(:outcome :returned :value ,value . ,_)
     (with-current-buffer
         (agent-q-render-body-visit
          "*agent-q backtrace*"
          (concat (propertize words 'face 'agent-q-attention) "\n\n"
                  (mapconcat (lambda (frame) (agent-q-text-visible-line frame))
                             (plist-get value :frames) "\n")
                  "\n")
          nil asked)
       (setq truncate-lines t)))
    (_ (message "%s" (or (plist-get reply :message) "The image did not answer")))))

;;;; Failed calls whose stacks are kept

(defun agent-q-call-events--kept (_process event)
  "Show whether the stack is kept of the call that EVENT is about.
For `agent-q-image-event-functions'."
  (pcase event
    (`(kept ,running ,kept)
     (let ((chat (agent-q-connection-call-owner running)))
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (when-let ((call (gethash (agent-q-connection-call-key running) agent-q-call-table)))
             (setf (agent-q-call-kept call) (and kept running))
             (agent-q-call-events--unfold call)
             (unless (gethash (agent-q-call-key call) agent-q-call-unfinished)
               (agent-q-render-update-item call)))))))))

(add-hook 'agent-q-image-event-functions #'agent-q-call-events--kept)

;;;; What happens to tool calls

(defun agent-q-call-events--step-p (call)
  "Whether CALL is a step of the one that made it, seen while that is unfolded."
  (and (agent-q-call-maker call)
       (equal (agent-q-call-tool (agent-q-call-maker call)) "research")))

(defun agent-q-call-events--line (call)
  "Return the line of CALL, which isn't shown as a request."
  (cond ((agent-q-call-effect-p call) (agent-q-call-effect-line call))
        ((agent-q-call-events--step-p call)
         (let ((agent-q-call-indent 2))
           (propertize (agent-q-call-text-line call) 'line-prefix "  " 'wrap-prefix "    ")))
        (t (agent-q-call-text-line call))))

(defun agent-q-call-events--draw (call)
  "Return the text of CALL."
  (if (and (eq (agent-q-call-state call) 'waiting)
           (not (agent-q-call-decided call)))
      (agent-q-approval-draw call)
    (let ((line (agent-q-call-events--line call)))
      (add-text-properties 0 (length line)
                           '(mouse-face highlight
                             help-echo "TAB or mouse: show the whole call")
                           line)
      (when (eq (agent-q-call-state call) 'running)
        (put-text-property 0 (length line) 'keymap agent-q-call-events-live-map line)
        (put-text-property 0 (length line) 'help-echo
                           "TAB or mouse: show the whole call; b: where it is" line))
      (if (agent-q-render-item-expanded call)
          (concat line "\n" (agent-q-call-text-body call))
        line))))

(defun agent-q-call-events--get (event)
  "Return the call that EVENT is about, new if it was not proposed before."
  (let ((key (plist-get event :call)))
    (or (gethash key agent-q-call-table)
        (let ((call (agent-q-call-make
                     :draw #'agent-q-call-events--draw :key key :state 'proposed
                     :tool (agent-q-text-visible-line (or (plist-get event :tool) "?") 80)
                     :arguments (or (plist-get event :arguments) "{}")
                     :reason (plist-get event :reason))))
          (puthash key call agent-q-call-table)
          (puthash key call agent-q-call-unfinished)
          (agent-q-call-events--add event call)
          call))))

(defun agent-q-call-events--add (event call)
  "Put CALL, which EVENT proposes, into the log, behind the call that made it.
What that call has made before stands between."
  (let* ((maker (gethash (plist-get event :after) agent-q-call-table))
         (before maker))
    (while (and before (agent-q-call-last before))
      (setq before (agent-q-call-last before)))
    (setf (agent-q-call-maker call) maker)
    (if (agent-q-call-events--step-p call)
        (agent-q-render-add-part call maker before)
      (agent-q-render-add-item call before))
    (when maker
      (setf (agent-q-call-last maker) call))))

(defun agent-q-call-events-past (event arguments outcome content milliseconds)
  "Show the call that EVENT proposed in a chat that was stored.
ARGUMENTS, OUTCOME, CONTENT and MILLISECONDS are as in the events that
followed; OUTCOME is nil when none did."
  (let ((call (agent-q-call-make
               :draw #'agent-q-call-events--draw :key (plist-get event :call)
               :tool (agent-q-text-visible-line (or (plist-get event :tool) "?") 80)
               :arguments (or arguments (plist-get event :arguments) "{}")
               :state (if outcome (intern (substring (symbol-name outcome) 1)) 'cancelled)
               :content content :milliseconds milliseconds)))
    (puthash (agent-q-call-key call) call agent-q-call-table)
    (agent-q-call-events--add event call)
    (agent-q-call-events--fold call)))

(defun agent-q-call-events--activate (call state)
  "Note that CALL is in STATE, `waiting' or `running'."
  (setf (agent-q-call-state call) state)
  (unless (memq call agent-q-call-active)
    (push call agent-q-call-active)))

(defun agent-q-call-events-proposed (event)
  "Show the call that EVENT proposes."
  (agent-q-call-events--get event))

(defun agent-q-call-events-approval (event target)
  "Ask about the call of EVENT.
TARGET returns what the call concerns, a line or nil."
  (let ((call (agent-q-call-events--get event)))
    (agent-q-call-events--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-level call) (plist-get event :level)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-grounds call) (plist-get event :grounds)
          (agent-q-call-target call) (funcall target call)
          (agent-q-call-offer call) nil
          (agent-q-call-change call) nil
          (agent-q-call-decided call) nil)
    (agent-q-approval-gate-disarm call)
    (agent-q-render-update-item call)
    (agent-q-approval-gate-draw-waiting call)
    (agent-q-approval-gate-draw-running call)
    (agent-q-approval-gate-arm call)))

(defun agent-q-call-events-approval-elsewhere (event)
  "Show that the call of EVENT waits for a program's decision."
  (let ((call (agent-q-call-events--get event)))
    (agent-q-call-events--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-decided call) "waits for agent-q-approval-handler")
    (agent-q-render-update-item call)))

(defun agent-q-call-events-settled-elsewhere (event)
  "Show that the call of EVENT no longer waits, because of a rule."
  (let ((call (agent-q-call-events--get event)))
    (when (eq (agent-q-call-state call) 'waiting)
      (agent-q-approval-gate-note-decision call (plist-get event :outcome))
      (agent-q-approval-gate-show-decision call))))

(defun agent-q-call-events-started-event (event)
  "Show that the call of EVENT is running."
  (let ((call (agent-q-call-events--get event)))
    (agent-q-call-events--activate call 'running)
    (setf ;; The user may have changed them.
          (agent-q-call-arguments call) (or (plist-get event :arguments)
                                            (agent-q-call-arguments call))
          (agent-q-call-output call) nil
          (agent-q-call-progress call) nil
          (agent-q-call-started call) (current-time))
    ;; What it asks of the image comes with it, and can be on its way meanwhile.
    (agent-q-events-afterwards (lambda () (agent-q-render-update-item call)))
    (agent-q-call-events-live-soon)))

(defun agent-q-call-events-finished (event)
  "Show the result of the call of EVENT."
  (let ((call (agent-q-call-events--get event)))
    (setf (agent-q-call-state call)
          (intern (substring (symbol-name (plist-get event :outcome)) 1))
          (agent-q-call-content call) (plist-get event :content)
          (agent-q-call-milliseconds call) (plist-get event :milliseconds))
    (unless agent-q-fold-results
      (agent-q-render-unfold call))
    (agent-q-call-events--close call)))

(defun agent-q-call-events--close (call)
  "Draw CALL, which is over."
  (setf (agent-q-call-armed call) nil)
  (agent-q-module-log-run-hook 'agent-q-call-settled-functions call)
  (remhash (agent-q-call-key call) agent-q-call-unfinished)
  (setq agent-q-call-active (delq call agent-q-call-active))
  (agent-q-render-update-item call)
  (agent-q-call-events--fold call)
  (agent-q-approval-gate-draw-running call))

(defun agent-q-call-events--equal-p (call other)
  "Whether CALL and OTHER failed in the same way, and one line can say so."
  (and (eq 'failed (agent-q-call-state call))
       (eq 'failed (agent-q-call-state other))
       (agent-q-call-content call)
       (equal (agent-q-call-content call) (agent-q-call-content other))
       (not (seq-some (lambda (call)
                        (or (agent-q-call-effect-p call) (agent-q-call-change call)
                            (agent-q-call-kept call) (agent-q-call-maker call)
                            (agent-q-call-last call)
                            (agent-q-render-item-expanded call)))
                      (list call other)))))

(defun agent-q-call-events--fold (call)
  "Let one line speak for CALL and those beside it that failed in the same way."
  (pcase-dolist (`(,upper ,lower) `((,(agent-q-render-item-before call) ,call)
                                    (,call ,(agent-q-render-item-after call))))
    (when (and (agent-q-call-p upper) (agent-q-call-p lower)
               (agent-q-call-events--equal-p upper lower))
      (let ((head (or (agent-q-call-head upper) upper)))
        (unless (agent-q-render-item-expanded head)
          (dolist (each (append (agent-q-call-equal lower) (list lower)))
            (setf (agent-q-call-head each) head
                  (agent-q-render-item-hidden each) t)
            (agent-q-render-update-item each))
          (setf (agent-q-call-equal head) (append (agent-q-call-equal lower) (list lower)
                                                  (agent-q-call-equal head))
                (agent-q-call-equal lower) nil)
          (agent-q-render-update-item head))))))

(defun agent-q-call-events--unfold (call)
  "Let CALL have a line of its own again."
  (when-let ((head (agent-q-call-head call)))
    (setf (agent-q-call-head call) nil
          (agent-q-render-item-hidden call) nil
          (agent-q-call-equal head) (delq call (agent-q-call-equal head)))
    (agent-q-render-update-item head)))

(defun agent-q-call-events-abandon ()
  "Show every call that is still open as cancelled: the turn is over."
  (dolist (call (hash-table-values agent-q-call-unfinished))
    (setf (agent-q-call-state call) 'cancelled)
    (agent-q-call-events--close call)))

(defun agent-q-call-events-leave ()
  "Close each other view of a call of this chat, which is being killed."
  (dolist (call (and agent-q-call-unfinished (hash-table-values agent-q-call-unfinished)))
    (agent-q-module-log-run-hook 'agent-q-call-settled-functions call))
  (agent-q-approval-arguments-leave (current-buffer))
  (agent-q-attention-leave (current-buffer)))

(defun agent-q-call-events-tick ()
  "Redraw each visible running call with its elapsed time.
What it has printed comes a little later."
  (agent-q-call-events-live-tick)
  (let ((windows (get-buffer-window-list nil t t)))
    (dolist (call (agent-q-call-running))
      (when (seq-some (lambda (window)
                        (agent-q-call-events--near-p call window))
                      windows)
        (agent-q-render-update-item call)))))

(defun agent-q-call-events--near-p (call window)
  "Whether CALL may be seen in WINDOW.
To know it exactly takes longer than drawing."
  (<= (window-start window)
      (marker-position (agent-q-render-item-end call))
      (+ (window-start window) (* (window-total-height window)
                                  (1+ (window-total-width window))))))

(provide 'agent-q-call-events)
;;; agent-q-call-events.el ends here
